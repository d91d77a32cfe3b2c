// Main of MPI tests: rank 0 prints, other ranks print only failures; all ranks agree on the exit
// code.
#include <cstdio>

#include <gtest/gtest.h>
#include <mpi.h>

#include "weightlift/mpi/communicator.hpp"

namespace {
class FailuresOnly : public testing::EmptyTestEventListener {
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed())
            std::fprintf(stderr, "%s:%d: %s\n", result.file_name(), result.line_number(),
                         result.summary());
    }
};
}  // namespace

int main(int argc, char** argv) {
    const weightlift::mpi::Environment environment(&argc, &argv);
    testing::InitGoogleTest(&argc, argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0) {
        auto& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new FailuresOnly);
    }
    int mine = RUN_ALL_TESTS();
    int worst = 0;
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return worst;
}
