#include "neighbourhood.hpp"

#include <algorithm>
#include <deque>

#include "weightlift/mpi/message.hpp"

namespace weightlift::transport::nccl {

Neighbourhood::Neighbourhood(int rank, std::vector<int> links) {
    std::sort(links.begin(), links.end());
    links.erase(std::unique(links.begin(), links.end()), links.end());
    std::erase(links, rank);
    links_.emplace(rank, std::move(links));
}

mpi::Bytestring Neighbourhood::told() const {
    mpi::Writer out;
    out.put(static_cast<std::uint64_t>(links_.size()));
    for (const auto& [rank, links] : links_) {
        out.put(rank);
        out.put_all(std::span<const int>(links));
    }
    return out.take();
}

void Neighbourhood::hear(std::span<const std::byte> told) {
    mpi::Reader in(told, "list of linked ranks");
    std::uint64_t count = 0;
    in.get(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        int rank = 0;
        std::vector<int> links;
        in.get(rank);
        in.get_all(links);
        links_.emplace(rank, std::move(links));
    }
}

std::optional<int> Neighbourhood::rounds() const {
    // Steps from the lowest member; twice the most is at least the way between any two.
    std::map<int, int> steps{{links_.begin()->first, 0}};
    std::deque<int> open{links_.begin()->first};
    int most = 0;
    while (!open.empty()) {
        const int rank = open.front();
        open.pop_front();
        const auto known = links_.find(rank);
        if (known == links_.end()) return std::nullopt;
        most = std::max(most, steps[rank]);
        for (const int next : known->second)
            if (steps.try_emplace(next, steps[rank] + 1).second) open.push_back(next);
    }
    return 2 * most;
}

std::vector<int> Neighbourhood::members() const {
    std::vector<int> members;
    for (const auto& [rank, links] : links_) members.push_back(rank);
    return members;
}

}  // namespace weightlift::transport::nccl
