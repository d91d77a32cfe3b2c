#include "push.hpp"

namespace weightlift::transport::mpi_rma {
namespace {

constexpr int kNoticeTag = 31001;
constexpr int kWords = 2;
static_assert(sizeof(Notice) == kWords * sizeof(std::uint64_t));

using weightlift::mpi::check;

}  // namespace

Notices::~Notices() {
    if (abandoned_) {
        [[maybe_unused]] const State* kept = state_.release();
        return;
    }
    for (MPI_Request& request : state_->requests) MPI_Request_free(&request);
}

void Notices::reserve(std::size_t n) {
    state_->notices.reserve(n);
    state_->requests.reserve(n);
    state_->indices.resize(n);
}

void Notices::add_send(int rank, MPI_Comm comm) {
    Notice& notice = state_->notices.emplace_back();
    check(MPI_Send_init(&notice, kWords, MPI_UINT64_T, rank, kNoticeTag, comm,
                        &state_->requests.emplace_back()),
          "MPI_Send_init");
}

void Notices::add_receive(int rank, MPI_Comm comm) {
    Notice& notice = state_->notices.emplace_back();
    check(MPI_Recv_init(&notice, kWords, MPI_UINT64_T, rank, kNoticeTag, comm,
                        &state_->requests.emplace_back()),
          "MPI_Recv_init");
}

void Notices::start(std::size_t i) { check(MPI_Start(&state_->requests[i]), "MPI_Start"); }

bool Notices::is_done(std::size_t i) {
    int done = 0;
    check(MPI_Test(&state_->requests[i], &done, MPI_STATUS_IGNORE), "MPI_Test of a notice");
    return done != 0;
}

bool Notices::all_done() {
    int done = 0;
    check(MPI_Testall(static_cast<int>(state_->requests.size()), state_->requests.data(), &done,
                      MPI_STATUSES_IGNORE),
          "MPI_Testall of notices");
    return done != 0;
}

std::span<const int> Notices::newly_done() {
    int count = 0;
    check(MPI_Testsome(static_cast<int>(state_->requests.size()), state_->requests.data(), &count,
                       state_->indices.data(), MPI_STATUSES_IGNORE),
          "MPI_Testsome of notices");
    if (count == MPI_UNDEFINED) count = 0;  // none is under way
    return {state_->indices.data(), static_cast<std::size_t>(count)};
}

}  // namespace weightlift::transport::mpi_rma
