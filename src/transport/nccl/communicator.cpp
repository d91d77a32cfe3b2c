#include "communicator.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <sched.h>

#include "weightlift/cuda/device.hpp"

namespace weightlift::transport::nccl {
namespace {

constexpr int kIdTag = 31021;

std::string reason(ncclResult_t result, ncclComm_t comm) {
    std::string text = ncclGetErrorString(result);
    const char* const last = ncclGetLastError(comm);
    if (last != nullptr && *last != '\0') text += fmt::format(" ({})", last);
    return text;
}

/// The lowest member makes the id and sends it to the others.
ncclUniqueId agree_on_id(const Context& context, const std::vector<int>& members,
                         const mpi::Deadline& deadline) {
    const mpi::Communicator& world = *context.world;
    ncclUniqueId id{};
    std::map<int, mpi::Bytestring> outgoing;
    std::vector<int> sources;
    if (world.rank() == members.front()) {
        const ncclResult_t result = ncclGetUniqueId(&id);
        if (result != ncclSuccess)
            throw TransportError("nccl: ncclGetUniqueId: " + reason(result, nullptr));
        mpi::Bytestring bytes(sizeof id);
        std::memcpy(bytes.data(), &id, sizeof id);
        for (const int member : members)
            if (member != world.rank()) outgoing.emplace(member, bytes);
    } else {
        sources.push_back(members.front());
    }
    const auto told = world.exchange(outgoing, sources, kIdTag, deadline, "id for NCCL");
    if (!sources.empty()) {
        const mpi::Bytestring& bytes = told.at(members.front());
        if (bytes.size() != sizeof id)
            throw TransportError(fmt::format("nccl: {} has told an id of {} bytes, not {}",
                                             context.label(members.front()), bytes.size(),
                                             sizeof id));
        std::memcpy(&id, bytes.data(), sizeof id);
    }
    return id;
}

}  // namespace

Communicator::Communicator(const Context& context, std::vector<int> members, int device)
    : members_(std::move(members)), device_(device) {
    const mpi::Deadline deadline(context.timeout);
    const ncclUniqueId id = agree_on_id(context, members_, deadline);
    const cuda::DeviceGuard guard(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
        check(ncclCommInitRankConfig(&comm_, narrow<int>(members_.size(), "ranks of NCCL"), id,
                                     index_of(context.world->rank()), &config),
              "ncclCommInitRankConfig");
        while (!is_ready()) {
            context.world->listen();
            if (deadline.passed())
                context.world->expire(
                    deadline, "connect",
                    fmt::format("NCCL's setting up between {} ranks", members_.size()));
            ::sched_yield();
        }
    } catch (...) {
        abort();
        throw;
    }
}

Communicator::~Communicator() { abort(); }

void Communicator::register_memory(void* data, Bytes bytes) {
    const cuda::DeviceGuard guard(device_);
    void* handle = nullptr;  // goes with the communicator
    if (bytes > 0) check(ncclCommRegister(comm_, data, bytes, &handle), "ncclCommRegister");
}

int Communicator::index_of(int rank) const {
    const auto at = std::lower_bound(members_.begin(), members_.end(), rank);
    WEIGHTLIFT_ENSURES(at != members_.end() && *at == rank);
    return static_cast<int>(at - members_.begin());
}

void Communicator::group(const std::function<void(Group&)>& post) {
    WEIGHTLIFT_ENSURES(comm_ != nullptr);
    check(ncclGroupStart(), "ncclGroupStart");
    Group group(comm_);
    post(group);
    const ncclResult_t result = ncclGroupEnd();
    check(group.failed_, group.call_);
    check(result, "ncclGroupEnd");
}

bool Communicator::is_ready() {
    if (comm_ == nullptr)
        throw TransportError("nccl: the communicator was given up with an earlier push");
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    check(state, "what is under way");
    return state == ncclSuccess;
}

void Communicator::abort() noexcept {
    if (comm_ == nullptr) return;
    const ncclResult_t result = ncclCommAbort(std::exchange(comm_, nullptr));
    if (result != ncclSuccess && result != ncclInProgress)
        std::fprintf(stderr, "weightlift: ncclCommAbort: %s\n", ncclGetErrorString(result));
}

void Communicator::check(ncclResult_t result, const char* call) const {
    if (result != ncclSuccess && result != ncclInProgress)
        throw TransportError(fmt::format("nccl: {}: {}", call, reason(result, comm_)));
}

}  // namespace weightlift::transport::nccl
