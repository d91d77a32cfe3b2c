#include "cast.hpp"

#include <numeric>
#include <thread>
#include <vector>

#include <fmt/format.h>

namespace weightlift::app::sweep {

namespace {

constexpr int kPlayersTag = 201, kAudienceTag = 202;
/// More phases than lie between two words of rank 0, each within its own deadline: setting up has
/// the most.
constexpr int kPhases = 20;

mpi::Communicator open_group(const mpi::Communicator& world, mpi::Watchdog& watchdog,
                             const std::vector<int>& ranks, int tag,
                             std::chrono::nanoseconds timeout) {
    const auto guard = watchdog.guard(mpi::Deadline(timeout), [&world] {
        return fmt::format("{}: the other ranks did not come to the next case",
                           world.label(world.rank()));
    });
    return world.create_group(ranks, tag);
}

}  // namespace

Cast::Cast(const mpi::Communicator& world, mpi::Watchdog& watchdog, int players,
           std::chrono::nanoseconds timeout, std::chrono::nanoseconds interval)
    : patience_(kPhases * timeout + interval) {
    const int rank = world.rank();
    if (rank < players) {
        std::vector<int> ranks(static_cast<std::size_t>(players));
        std::iota(ranks.begin(), ranks.end(), 0);
        players_.emplace(open_group(world, watchdog, ranks, kPlayersTag, timeout));
    }
    if (players == world.size() || (rank > 0 && rank < players)) return;
    std::vector<int> ranks{0};
    for (int r = players; r < world.size(); ++r) ranks.push_back(r);
    audience_.emplace(open_group(world, watchdog, ranks, kAudienceTag, timeout));
    if (rank > 0)
        audience_->set_idle([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
}

void Cast::tell(bool goes_on) const {
    if (!audience_) return;
    mpi::Bytestring word{static_cast<std::byte>(goes_on ? 1 : 0)};
    audience_->broadcast(word, mpi::Deadline(patience_), "a case of others");
}

void Cast::sit_out() const {
    mpi::Bytestring word;
    do {
        audience_->broadcast(word, mpi::Deadline(patience_), "a case of others");
    } while (word.at(0) != std::byte{0});
}

}  // namespace weightlift::app::sweep
