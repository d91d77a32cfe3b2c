#include "poll.hpp"
#include "roll_call.hpp"

namespace weightlift::mpi {

namespace {
constexpr int kGatherTag = kRollCallTag - 1;
}

std::vector<Bytestring> Communicator::gather_strings(std::span<const std::byte> value,
                                                     const Deadline& deadline,
                                                     const char* phase) const {
    Bytestring mine(value.begin(), value.end());
    if (rank_ != 0) {
        (void)exchange({{0, std::move(mine)}}, {}, kGatherTag, deadline, phase);
        return {};
    }
    std::vector<int> others;
    for (int r = 1; r < size_; ++r) others.push_back(r);
    auto received = exchange({}, others, kGatherTag, deadline, phase);
    std::vector<Bytestring> all{std::move(mine)};
    for (const int r : others) all.push_back(std::move(received.at(r)));
    return all;
}

std::map<int, Bytestring> Communicator::exchange(const std::map<int, Bytestring>& outgoing,
                                                 std::span<const int> sources, int tag,
                                                 const Deadline& deadline,
                                                 const char* phase) const {
    // A message is its size, then its pieces in order; MPI keeps the order of one pair and tag.
    struct Incoming {
        std::uint64_t bytes = 0;
        Bytestring value;
        std::vector<MPI_Request> pieces;
        bool sized = false;
        bool done = false;
    };
    struct State {
        std::map<int, Incoming> incoming;
        std::vector<std::uint64_t> sizes;
        std::vector<MPI_Request> sends;
    } state;
    const auto post_send = [&](const void* data, int count, int to) {
        check(MPI_Isend(data, count, MPI_BYTE, to, tag, comm_, &state.sends.emplace_back()),
              "MPI_Isend");
    };
    const auto post_receive = [&](void* data, int count, int from, Incoming& in) {
        check(MPI_Irecv(data, count, MPI_BYTE, from, tag, comm_, &in.pieces.emplace_back()),
              "MPI_Irecv");
    };

    for (const int source : sources) {
        Incoming& in = state.incoming[source];
        post_receive(&in.bytes, sizeof in.bytes, source, in);
    }
    state.sizes.reserve(outgoing.size());
    for (const auto& [to, value] : outgoing) {
        state.sizes.push_back(value.size());
        post_send(&state.sizes.back(), sizeof(std::uint64_t), to);
        for_each_piece(value.size(),
                       [&](Bytes at, int count) { post_send(value.data() + at, count, to); });
    }

    const auto advance = [&](int source, Incoming& in) {
        while (!in.done) {
            int done = 0;
            check(MPI_Testall(narrow<int>(in.pieces.size()), in.pieces.data(), &done,
                              MPI_STATUSES_IGNORE),
                  phase);
            if (done == 0) return false;
            in.done = in.sized;
            if (in.sized) break;
            in.sized = true;
            in.pieces.clear();
            in.value.resize(in.bytes);
            for_each_piece(in.bytes, [&](Bytes at, int count) {
                post_receive(in.value.data() + at, count, source, in);
            });
        }
        return true;
    };
    const auto done = [&] {
        int sent = 0;
        check(MPI_Testall(narrow<int>(state.sends.size()), state.sends.data(), &sent,
                          MPI_STATUSES_IGNORE),
              phase);
        bool all = sent != 0;
        for (auto& [source, in] : state.incoming) all = advance(source, in) && all;
        return all;
    };
    const auto event = [&] {
        std::string text = label(rank_);
        const char* joint = " waits for ";
        for (const auto& [source, in] : state.incoming) {
            if (in.done) continue;
            text += joint + label(source);
            joint = ", ";
        }
        return text;
    };
    try {
        poll(deadline, phase, done, event);
    } catch (...) {
        lost_ = true;
        abandon(state);
        throw;
    }
    std::map<int, Bytestring> received;
    for (auto& [source, in] : state.incoming) received.emplace(source, std::move(in.value));
    return received;
}

}  // namespace weightlift::mpi
