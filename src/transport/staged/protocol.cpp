#include "protocol.hpp"

#include <fmt/format.h>

namespace weightlift::transport::staged {

void fail(const std::string& what) { throw TransportError("staged: " + what); }

bool Requests::test(MPI_Request& request, const char* call, int rank, std::uint64_t epoch,
                    MPI_Status* status) const {
    int done = 0;
    try {
        mpi::check(MPI_Test(&request, &done, status), call);
    } catch (const TransportError& error) {
        fail(fmt::format("{} in the push of epoch {} with {}", error.what(), epoch,
                         context_.label(rank)));
    }
    return done != 0;
}

void Requests::send(const void* from, Bytes bytes, int rank, int tag, MPI_Request& request) const {
    mpi::check(MPI_Isend(from, static_cast<int>(bytes), MPI_BYTE, rank, tag, context_.world->get(),
                         &request),
               "MPI_Isend");
}

void Requests::receive(void* to, Bytes bytes, int rank, int tag, MPI_Request& request) const {
    mpi::check(MPI_Irecv(to, static_cast<int>(bytes), MPI_BYTE, rank, tag, context_.world->get(),
                         &request),
               "MPI_Irecv");
}

bool let_go(MPI_Request& request, Side side) {
    if (request == MPI_REQUEST_NULL) return false;
    if (side == Side::Receive) MPI_Cancel(&request);
    MPI_Request_free(&request);
    return true;
}

}  // namespace weightlift::transport::staged
