// A simulation with MPI that knows nothing of wf: a wave on a string, in blocks of cells.
//
// Every 10 of its steps it writes a step of `u`, every 30 a checkpoint of its own, `checkpoint.STEP`.
//
// Usage: wave OUTPUT [CHECKPOINT]    (the engine is that of io `out` in adios2.xml)

#include <adios2.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace
{
const int cells = 60, steps = 240, write_every = 10, save_every = 30;

// The two layers in time of all cells, written by rank 0 under another name and renamed when they are whole.
void save(const std::vector<double> &now, const std::vector<double> &before, int step, int rank)
{
    const int count = static_cast<int>(now.size());
    std::vector<double> all(2 * cells);
    MPI_Gather(now.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Gather(before.data(), count, MPI_DOUBLE, all.data() + cells, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank != 0)
        return;
    const std::string name = "checkpoint." + std::to_string(step);
    {
        std::ofstream file("saving", std::ios::binary);
        file.write(reinterpret_cast<const char *>(&step), sizeof step);
        file.write(reinterpret_cast<const char *>(all.data()), all.size() * sizeof(double));
    }
    std::rename("saving", name.c_str());
}

// The step of a checkpoint, and this rank's cells; ends the program where the file is not whole.
int load(const char *path, std::vector<double> &now, std::vector<double> &before, int first)
{
    int step = 0;
    std::vector<double> all(2 * cells);
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char *>(&step), sizeof step);
    file.read(reinterpret_cast<char *>(all.data()), all.size() * sizeof(double));
    if (!file)
    {
        std::cerr << "wave: " << path << " is no whole checkpoint" << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    std::copy_n(all.begin() + first, now.size(), now.begin());
    std::copy_n(all.begin() + cells + first, before.size(), before.begin());
    return step;
}
} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0, size = 1, done = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int count = cells / size, first = rank * count;
    std::vector<double> now(count), before(count), next(count);
    for (int i = 0; i < count; ++i)
        now[i] = before[i] = std::exp(-0.05 * (first + i - 20.0) * (first + i - 20.0));
    if (argc > 2)
        done = load(argv[2], now, before, first);

    {
        adios2::ADIOS adios("adios2.xml", MPI_COMM_WORLD);
        adios2::IO io = adios.DeclareIO("out");
        auto u = io.DefineVariable<double>("u", {size_t(cells)}, {size_t(first)}, {size_t(count)});
        auto step_number = io.DefineVariable<int32_t>("step");
        adios2::Engine engine = io.Open(argv[1], adios2::Mode::Write);
        const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
        for (int step = done + 1; step <= steps; ++step)
        {
            double from_left = 0.0, from_right = 0.0; // the ends of the string are held
            MPI_Sendrecv(&now[count - 1], 1, MPI_DOUBLE, right, 0, &from_left, 1, MPI_DOUBLE, left, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Sendrecv(&now[0], 1, MPI_DOUBLE, left, 1, &from_right, 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            for (int i = 0; i < count; ++i)
            {
                const double a = i > 0 ? now[i - 1] : from_left, b = i + 1 < count ? now[i + 1] : from_right;
                next[i] = 2.0 * now[i] - before[i] + 0.25 * (a - 2.0 * now[i] + b);
            }
            before.swap(now);
            now.swap(next);
            if (step % write_every == 0)
            {
                engine.BeginStep();
                engine.Put(u, now.data());
                if (rank == 0)
                    engine.Put(step_number, step);
                engine.EndStep();
            }
            if (step % save_every == 0)
                save(now, before, step, rank);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        engine.Close();
    }
    MPI_Finalize();
    return 0;
}
