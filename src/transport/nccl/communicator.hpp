// An NCCL communicator that never blocks: everything is begun, then asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nccl.h>

#include "weightlift/transport/transport.hpp"

/// What ncclWindow_t points to, where NCCL has windows.
struct ncclWindow_vidmem;

namespace weightlift::transport::nccl {

class Group;

class Communicator {
public:
    /// Collective over `members` (world ranks, ascending), of which the calling rank is one; its
    /// memory lies on `device`. Throws TransportError with NCCL's reason, DeadlineError where
    /// members are missing.
    Communicator(const Context& context, std::vector<int> members, int device);
    /// Aborts.
    ~Communicator();
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    /// So that NCCL may move it without copies of its own, where it can.
    void register_memory(void* data, Bytes bytes);

    /// So that members may put into it, as many bytes at each. Collective; waits for the others as
    /// the constructor does. ConfigError where NCCL cannot do it between these GPUs.
    void open_window(void* data, Bytes bytes);

    /// Of a member, by world rank.
    [[nodiscard]] int index_of(int rank) const;

    /// Begins what `post` asks for. Then is_ready() must come true before the next.
    void group(const std::function<void(Group&)>& post);
    /// Whether the last group is on its stream. Throws TransportError where that, or anything under
    /// way, has failed.
    [[nodiscard]] bool is_ready();

    /// Ends everything under way, here and now, in time; waits for no peer. Nothing else may
    /// follow.
    void abort() noexcept;
    [[nodiscard]] bool is_aborted() const { return comm_ == nullptr; }

private:
    void check(ncclResult_t result, const char* call) const;
    /// Until the last call is through.
    void await(const mpi::Deadline& deadline, const char* what);
    void pause(const mpi::Deadline& deadline, const char* what) const;
    void greet(const mpi::Deadline& deadline);

    const Context& context_;
    std::vector<int> members_;
    int device_;
    ncclComm_t comm_ = nullptr;
    ncclWindow_vidmem* window_ = nullptr;  ///< of all members; goes with the communicator
};

/// Work that, as NCCL says, waits for nobody: where a peer is lost, that is not to be relied on.
/// After half the timeout the watchdog says that this rank `what` (a phrase that names peers), and
/// ends the process.
void end_in_time(const Context& context, const std::function<std::string()>& what,
                 const std::function<void()>& work) noexcept;

/// Why messages cannot be put with this build, library and memory; empty: they can.
[[nodiscard]] std::string why_no_puts(const Context& context);
/// Whether NCCL has been told to let ranks share a GPU, and can.
[[nodiscard]] bool may_share_gpus();

/// What is begun together. Peers by their index in the communicator.
class Group {
public:
    void send(const std::byte* data, Bytes bytes, int peer, CUstream_st* stream) {
        note(ncclSend(data, bytes, ncclInt8, peer, comm_, stream), "ncclSend");
    }
    void receive(std::byte* data, Bytes bytes, int peer, CUstream_st* stream) {
        note(ncclRecv(data, bytes, ncclInt8, peer, comm_, stream), "ncclRecv");
    }
    /// From the root's `data` into that of every other member.
    void broadcast(std::byte* data, Bytes bytes, int root, CUstream_st* stream) {
        note(ncclBroadcast(data, data, bytes, ncclInt8, root, comm_, stream), "ncclBroadcast");
    }

    /// Into the peer's window, with a signal behind it.
    void put(const std::byte* data, Bytes bytes, int peer, Bytes offset, CUstream_st* stream);
    /// A signal alone.
    void signal(int peer, CUstream_st* stream);
    struct Awaited {
        int peer = 0;
        int signals = 0;
    };
    /// Holds the stream up until these signals, after all that were waited for before, are there.
    void wait_for(const std::vector<Awaited>& signals, CUstream_st* stream);

private:
    friend class Communicator;
    Group(ncclComm_t comm, ncclWindow_vidmem* window) : comm_(comm), window_(window) {}
    /// A group that was begun must be ended, whatever fails in it.
    void note(ncclResult_t result, const char* call) {
        if (failed_ != ncclSuccess || result == ncclInProgress) return;
        failed_ = result;
        call_ = call;
    }
    ncclComm_t comm_;
    [[maybe_unused]] ncclWindow_vidmem* window_;  ///< before NCCL 2.29: of nobody
    ncclResult_t failed_ = ncclSuccess;
    const char* call_ = "";  ///< that failed
};

}  // namespace weightlift::transport::nccl
