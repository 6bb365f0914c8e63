// Heat transfer as in many tutorials: one program writes a temperature, another its change from step to step, and a
// third sums that. Each is of any number of ranks, and knows nothing of wf.
//
// Usage: heat write OUTPUT STEPS | heat change INPUT OUTPUT | heat total INPUT
// The engines are those of the ios `temperature` and `change` in adios2.xml.

#include <adios2.h>
#include <mpi.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace
{
constexpr size_t rows = 12, columns = 8;

// The rows of one rank.
adios2::Box<adios2::Dims> part(int rank, int ranks)
{
    const size_t first = rows * rank / ranks, last = rows * (rank + 1) / ranks;
    return {{first, 0}, {last - first, columns}};
}

void write(adios2::ADIOS &adios, const std::string &output, int steps, int rank, int ranks)
{
    adios2::IO io = adios.DeclareIO("temperature");
    const auto [start, count] = part(rank, ranks);
    auto variable = io.DefineVariable<double>("T", {rows, columns}, start, count);
    adios2::Engine writer = io.Open(output, adios2::Mode::Write);
    for (int step = 0; step < steps; ++step)
    {
        const std::vector<double> values(count[0] * columns, 1.0 * step * step);
        writer.BeginStep();
        writer.Put(variable, values.data(), adios2::Mode::Sync);
        writer.EndStep();
    }
    writer.Close();
}

void change(adios2::ADIOS &adios, const std::string &input, const std::string &output, int rank, int ranks)
{
    adios2::IO in = adios.DeclareIO("temperature"), out = adios.DeclareIO("change");
    const auto [start, count] = part(rank, ranks);
    auto result = out.DefineVariable<double>("dT", {rows, columns}, start, count);
    adios2::Engine reader = in.Open(input, adios2::Mode::Read), writer = out.Open(output, adios2::Mode::Write);
    std::vector<double> before(count[0] * columns), values(before.size()), difference(before.size());
    while (reader.BeginStep() == adios2::StepStatus::OK)
    {
        auto variable = in.InquireVariable<double>("T");
        variable.SetSelection({start, count});
        reader.Get(variable, values.data(), adios2::Mode::Sync);
        reader.EndStep();
        for (size_t index = 0; index < values.size(); ++index)
            difference[index] = values[index] - before[index];
        before = values;
        writer.BeginStep();
        writer.Put(result, difference.data(), adios2::Mode::Sync);
        writer.EndStep();
    }
    reader.Close();
    writer.Close();
}

// The first rank prints one line for each step.
void total(adios2::ADIOS &adios, const std::string &input, int rank)
{
    adios2::IO io = adios.DeclareIO("change");
    adios2::Engine reader = io.Open(input, adios2::Mode::Read);
    while (reader.BeginStep() == adios2::StepStatus::OK)
    {
        std::vector<double> values;
        reader.Get(io.InquireVariable<double>("dT"), values, adios2::Mode::Sync);
        reader.EndStep();
        double sum = 0.0;
        for (const double value : values)
            sum += value;
        if (rank == 0)
            std::cout << sum << std::endl;
    }
    reader.Close();
}
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0, ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    {
        adios2::ADIOS adios("adios2.xml", MPI_COMM_WORLD);
        const std::string role = argv[1];
        if (role == "write")
            write(adios, argv[2], std::atoi(argv[3]), rank, ranks);
        else if (role == "change")
            change(adios, argv[2], argv[3], rank, ranks);
        else
            total(adios, argv[2], rank);
    }
    MPI_Finalize();
    return 0;
}
