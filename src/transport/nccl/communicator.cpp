#include "communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sched.h>

#include "weightlift/cuda/device.hpp"
#include "weightlift/cuda/stream.hpp"

// One-sided messages came with NCCL 2.29.
#define WEIGHTLIFT_NCCL_PUTS (NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0))

namespace weightlift::transport::nccl {
namespace {

constexpr int kIdTag = 31021;
/// As ncclGetVersion tells it.
constexpr int kFirstWithPuts = 22900, kFirstWithSharing = 23000;

#if WEIGHTLIFT_NCCL_PUTS
/// NCCL takes no others.
constexpr int kSignal = 0, kContext = 0;
#else
[[noreturn]] void no_puts() {
    throw Error(ExitCode::Internal, "nccl: puts were asked for where there are none");
}
#endif

std::string version_text(int code) {
    return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

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
    : context_(context), members_(std::move(members)), device_(device) {
    const mpi::Deadline deadline(context.timeout);
    const ncclUniqueId id = agree_on_id(context, members_, deadline);
    const cuda::DeviceGuard guard(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
        check(ncclCommInitRankConfig(&comm_, narrow<int>(members_.size(), "ranks of NCCL"), id,
                                     index_of(context.world->rank()), &config),
              "ncclCommInitRankConfig");
        await(deadline, "setting up");
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

void Communicator::await(const mpi::Deadline& deadline, const char* what) {
    while (!is_ready()) pause(deadline, what);
}

void Communicator::pause(const mpi::Deadline& deadline, const char* what) const {
    context_.world->listen();
    if (deadline.passed())
        context_.world->expire(deadline, "connect",
                               fmt::format("NCCL's {} between {} ranks", what, members_.size()));
    ::sched_yield();
}

void Communicator::open_window(void* data, Bytes bytes) {
#if WEIGHTLIFT_NCCL_PUTS
    const cuda::DeviceGuard guard(device_);
    const mpi::Deadline deadline(context_.timeout);
    check(ncclCommWindowRegister(comm_, data, bytes, &window_, NCCL_WIN_COLL_SYMMETRIC),
          "ncclCommWindowRegister");
    await(deadline, "window");
    // Its way to say so.
    if (window_ == nullptr)
        throw ConfigError(fmt::format(
            "--nccl-mode put: NCCL has no windows between these {} GPUs (all must reach "
            "each other's memory, and NCCL_CUMEM_ENABLE and NCCL_WIN_ENABLE be on)",
            members_.size()));
    greet(deadline);
#else
    static_cast<void>(data);
    static_cast<void>(bytes);
    no_puts();
#endif
}

/// NCCL sets signals up at the first of them, and for that waits for all members, of which not all
/// may be put to in a push.
void Communicator::greet(const mpi::Deadline& deadline) {
    const int size = narrow<int>(members_.size(), "ranks of NCCL");
    if (size == 1) return;
    const int self = index_of(context_.world->rank());
    const cuda::Stream stream;
    const cuda::Event there;
    group([&](Group& group) { group.signal((self + 1) % size, stream.get()); });
    await(deadline, "first signals");
    group([&](Group& group) { group.wait_for({{(self + size - 1) % size, 1}}, stream.get()); });
    await(deadline, "first signals");
    there.record(stream);
    while (!there.is_done()) pause(deadline, "first signals");
}

int Communicator::index_of(int rank) const {
    const auto at = std::lower_bound(members_.begin(), members_.end(), rank);
    WEIGHTLIFT_ENSURES(at != members_.end() && *at == rank);
    return static_cast<int>(at - members_.begin());
}

void Communicator::group(const std::function<void(Group&)>& post) {
    WEIGHTLIFT_ENSURES(comm_ != nullptr);
    check(ncclGroupStart(), "ncclGroupStart");
    Group group(comm_, window_);
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

void end_in_time(const Context& context, const std::function<std::string()>& what,
                 const std::function<void()>& work) noexcept {
    if (context.watchdog == nullptr) return work();
    const auto timeout = context.timeout / 2;
    const auto guard = context.watchdog->guard(mpi::Deadline(timeout), [&context, &what, timeout] {
        return fmt::format("{}: {} within {:g} s", context.label(context.world->rank()), what(),
                           std::chrono::duration<double>(timeout).count());
    });
    work();
}

void Communicator::abort() noexcept {
    if (comm_ == nullptr) return;
    const auto what = [this] {
        std::vector<std::string> peers;
        for (const int member : members_)
            if (member != context_.world->rank()) peers.push_back(context_.label(member));
        return "NCCL has not given up its communicator with " + name_some(peers);
    };
    end_in_time(context_, what, [this] {
        const ncclResult_t result = ncclCommAbort(std::exchange(comm_, nullptr));
        if (result != ncclSuccess && result != ncclInProgress)
            std::fprintf(stderr, "weightlift: ncclCommAbort: %s\n", ncclGetErrorString(result));
    });
}

void Communicator::check(ncclResult_t result, const char* call) const {
    if (result != ncclSuccess && result != ncclInProgress)
        throw TransportError(fmt::format("nccl: {}: {}", call, reason(result, comm_)));
}

#if WEIGHTLIFT_NCCL_PUTS
void Group::put(const std::byte* data, Bytes bytes, int peer, Bytes offset, CUstream_st* stream) {
    note(ncclPutSignal(data, bytes, ncclInt8, peer, window_, offset, kSignal, kContext, 0, comm_,
                       stream),
         "ncclPutSignal");
}

void Group::signal(int peer, CUstream_st* stream) {
    note(ncclSignal(peer, kSignal, kContext, 0, comm_, stream), "ncclSignal");
}

void Group::wait_for(const std::vector<Awaited>& signals, CUstream_st* stream) {
    std::vector<ncclWaitSignalDesc_t> all;
    for (const Awaited& one : signals) all.push_back({one.signals, one.peer, kSignal, kContext});
    note(ncclWaitSignal(static_cast<int>(all.size()), all.data(), comm_, stream), "ncclWaitSignal");
}
#else
void Group::put(const std::byte*, Bytes, int, Bytes, CUstream_st*) { no_puts(); }
void Group::signal(int, CUstream_st*) { no_puts(); }
void Group::wait_for(const std::vector<Awaited>&, CUstream_st*) { no_puts(); }
#endif

std::string why_no_puts(const Context& context) {
    const auto refuse = [](const char* whose, int code) {
        return fmt::format("--nccl-mode put needs NCCL 2.29 or newer; {} {}", whose,
                           version_text(code));
    };
    int loaded = 0;
    if (!WEIGHTLIFT_NCCL_PUTS) return refuse("this build has", NCCL_VERSION_CODE);
    if (ncclGetVersion(&loaded) != ncclSuccess || loaded < kFirstWithPuts)
        return refuse("the library in use is", loaded);
    if (context.cuda.method != memory::DeviceMemory::Vmm)
        return "--nccl-mode put needs memory that NCCL can map elsewhere: --device-memory vmm";
    return {};
}

bool may_share_gpus() {
    const char* const told = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    int loaded = 0;
    return told != nullptr && std::string_view(told) == "1" &&
           ncclGetVersion(&loaded) == ncclSuccess && loaded >= kFirstWithSharing;
}

}  // namespace weightlift::transport::nccl
