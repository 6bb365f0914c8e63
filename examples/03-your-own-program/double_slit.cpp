// Waves behind a double slit: a simulation that writes through ADIOS2 and knows nothing of wf.
//
//     p_tt = c^2 (p_xx + p_yy)   with c = 1, grid spacing 1, second-order leapfrog
//
// A line of sources on the left sends a plane wave of amplitude 1 to the right, a wall with two slits stands in
// its way, and a sponge layer on all sides absorbs what arrives there. Every `write_every` time steps the field
// goes out as one ADIOS2 step.
//
// Usage: double_slit SETTINGS        (lines `name = value`; see settings.in)
// How the field is written (engine and parameters) is read from adios2.xml in the current directory.

#include <adios2.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Settings
{
    std::map<std::string, std::string> values;

    explicit Settings(const std::string &path)
    {
        std::ifstream file(path);
        if (!file)
            throw std::runtime_error("cannot read " + path);
        for (std::string line; std::getline(file, line);)
        {
            std::istringstream words(line.substr(0, line.find('#')));
            std::string name, equals, value;
            if (words >> name >> equals >> value && equals == "=")
                values[name] = value;
        }
    }
    std::string text(const std::string &name) const
    {
        const auto found = values.find(name);
        if (found == values.end())
            throw std::runtime_error("the settings lack " + name);
        return found->second;
    }
    double number(const std::string &name) const { return std::stod(text(name)); }
    size_t count(const std::string &name) const { return std::stoul(text(name)); }
};

struct Geometry
{
    size_t nx, ny, wall, width, distance;

    // Whether the wall closes cell (y, x): two slits, `distance` apart from centre to centre, around the middle.
    bool closed(size_t y, size_t x) const
    {
        if (x != wall && x != wall + 1)
            return false;
        const double off = std::abs(std::abs(y + 0.5 - ny / 2.0) - distance / 2.0);
        return off > width / 2.0;
    }
    // Damping per time step near the sides, growing quadratically into the layer.
    double damping(size_t y, size_t x) const
    {
        const size_t edge = std::min({x, y, nx - 1 - x, ny - 1 - y});
        const double depth = std::max(0.0, 1.0 - double(edge) / layer);
        return 0.25 * depth * depth;
    }
    static constexpr size_t layer = 30; // of the sponge, in cells
};

int run(const std::string &path)
{
    const Settings settings(path);
    const Geometry g{settings.count("nx"), settings.count("ny"), settings.count("wall"), settings.count("slit_width"),
                     settings.count("slit_distance")};
    const double dt = 0.5, pi = 3.14159265358979323846, wavelength = settings.number("wavelength");
    const size_t steps = settings.count("steps"), every = settings.count("write_every");

    std::vector<double> now(g.nx * g.ny, 0.0), before(now), next(now), damp(now.size()), open(now.size());
    for (size_t y = 0; y < g.ny; ++y)
        for (size_t x = 0; x < g.nx; ++x)
        {
            damp[y * g.nx + x] = g.damping(y, x);
            open[y * g.nx + x] = g.closed(y, x) ? 0.0 : 1.0;
        }

    adios2::ADIOS adios("adios2.xml");
    adios2::IO io = adios.DeclareIO("SimulationOutput");
    auto pressure = io.DefineVariable<float>("pressure", {g.ny, g.nx}, {0, 0}, {g.ny, g.nx});
    auto time = io.DefineVariable<double>("time");
    io.DefineAttribute<double>("wavelength", wavelength);
    io.DefineAttribute<double>("slit_distance", double(g.distance));
    io.DefineAttribute<int64_t>("wall", int64_t(g.wall));
    adios2::Engine engine = io.Open(settings.text("output"), adios2::Mode::Write);

    std::vector<float> out(now.size());
    for (size_t step = 1; step <= steps; ++step)
    {
        for (size_t y = 1; y + 1 < g.ny; ++y)
            for (size_t x = 1; x + 1 < g.nx; ++x)
            {
                const size_t i = y * g.nx + x;
                const double laplacian = now[i - 1] + now[i + 1] + now[i - g.nx] + now[i + g.nx] - 4.0 * now[i];
                next[i] = open[i] * (now[i] + (1.0 - damp[i]) * (now[i] - before[i]) + dt * dt * laplacian);
            }
        // A line source of strength f sends waves of amplitude f / (2 omega) to both sides; switched on softly.
        const double t = step * dt, omega = 2.0 * pi / wavelength;
        const double strength = 2.0 * omega * std::min(1.0, t / (2.0 * wavelength)) * std::cos(omega * t);
        for (size_t y = 0; y < g.ny; ++y)
            next[y * g.nx + g.layer + 5] += dt * dt * strength;
        before.swap(now);
        now.swap(next);

        if (step % every == 0)
        {
            out.assign(now.begin(), now.end());
            engine.BeginStep();
            engine.Put(pressure, out.data());
            engine.Put(time, t);
            engine.EndStep();
        }
    }
    engine.Close();
    std::cout << "double_slit: " << steps / every << " steps written to " << settings.text("output") << std::endl;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2)
    {
        std::cerr << "usage: double_slit SETTINGS" << std::endl;
        return 2;
    }
    try
    {
        return run(argv[1]);
    }
    catch (const std::exception &error)
    {
        std::cerr << "double_slit: " << error.what() << std::endl;
        return 1;
    }
}
