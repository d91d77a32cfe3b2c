#include "visibility.hpp"

namespace weightlift::transport::verbs {

std::string_view to_string(Visibility visibility) {
    switch (visibility) {
        case Visibility::Nothing: return "completion";
        case Visibility::Flush: return "flush";
        case Visibility::LoopbackRead: return "loopback read";
    }
    return "?";
}

Visibility visibility_for(const memory::RemoteWrites& writes) {
    if (writes.two_paths) return Visibility::LoopbackRead;
    if (writes.are_ordered) return Visibility::Nothing;
    return writes.can_flush ? Visibility::Flush : Visibility::LoopbackRead;
}

Loopback::Loopback(std::vector<std::unique_ptr<Device>>& devices, const std::vector<bool>& used,
                   const VerbsOptions& options, const Registered& arena, const Registered& scratch)
    : arena_(arena), scratch_(scratch) {
    for (std::size_t rail = 0; rail < devices.size(); ++rail) {
        if (!used[rail]) continue;
        const Shape shape{.sends = 1, .receives = 1, .sge = 1, .inline_bytes = 0};
        auto pair =
            std::make_unique<QueuePair>(*devices[rail], shape, options, IBV_ACCESS_REMOTE_READ, 0);
        pair->connect(devices[rail]->rail(), pair->endpoint(), options);
        pairs_.push_back({static_cast<int>(rail), std::move(pair)});
    }
}

std::size_t Loopback::start() {
    for (const auto& [rail, pair] : pairs_) {
        ibv_sge to = scratch_.local(rail).entry(0, 1);
        ibv_send_wr request{};
        request.wr_id = pack_id({Kind::Read, 0, static_cast<std::uint32_t>(rail)});
        request.sg_list = &to;
        request.num_sge = 1;
        request.opcode = IBV_WR_RDMA_READ;
        request.send_flags = IBV_SEND_SIGNALED;
        const LocalMemory arena = arena_.local(rail);
        request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(arena.base);
        request.wr.rdma.rkey = arena.region->remote_keys().front();
        ibv_send_wr* bad = nullptr;
        if (const int error = ibv_post_send(pair->get(), &request, &bad); error != 0)
            throw system_error("cannot post the read that makes arrived bytes visible", error);
    }
    return pairs_.size();
}

}  // namespace weightlift::transport::verbs
