// An analysis that knows nothing of wf: the sum of squares of `u` in each step, and since the first one.
//
// Usage: energy INPUT OUTPUT MILLISECONDS    (the engines are those of ios `in` and `sums` in adios2.xml)

#include <adios2.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

int main(int, char **argv)
{
    adios2::ADIOS adios("adios2.xml");
    adios2::IO in = adios.DeclareIO("in"), out = adios.DeclareIO("sums");
    adios2::Engine reader = in.Open(argv[1], adios2::Mode::Read), writer = out.Open(argv[2], adios2::Mode::Write);
    auto index = out.DefineVariable<int32_t>("index");
    auto energy = out.DefineVariable<double>("energy"), total = out.DefineVariable<double>("total");
    double sum = 0.0;
    while (reader.BeginStep() == adios2::StepStatus::OK)
    {
        std::vector<double> u;
        int32_t step = 0;
        reader.Get(in.InquireVariable<double>("u"), u, adios2::Mode::Sync);
        reader.Get(in.InquireVariable<int32_t>("step"), step, adios2::Mode::Sync);
        reader.EndStep();
        double now = 0.0;
        for (const double value : u)
            now += value * value;
        sum += now;
        writer.BeginStep();
        writer.Put(index, step);
        writer.Put(energy, now);
        writer.Put(total, sum);
        writer.EndStep();
        std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(argv[3])));
    }
    reader.Close();
    writer.Close();
    return 0;
}
