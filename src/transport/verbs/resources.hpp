// libibverbs objects that close themselves. Errors are TransportError naming the device and what
// was asked of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "weightlift/transport/nics.hpp"
#include "weightlift/transport/options.hpp"
#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::verbs {

/// "verbs: <what>: <text of the error number>".
[[nodiscard]] TransportError system_error(const std::string& what, int error);

template <auto Close>
struct Closer {
    template <class T>
    void operator()(T* object) const {
        Close(object);
    }
};
using ContextPtr = std::unique_ptr<ibv_context, Closer<&ibv_close_device>>;
using DomainPtr = std::unique_ptr<ibv_pd, Closer<&ibv_dealloc_pd>>;
using QueuePtr = std::unique_ptr<ibv_cq, Closer<&ibv_destroy_cq>>;
using PairPtr = std::unique_ptr<ibv_qp, Closer<&ibv_destroy_qp>>;
using MemoryPtr = std::unique_ptr<ibv_mr, Closer<&ibv_dereg_mr>>;

/// One port of one NIC, opened.
class Device {
public:
    Device(Nic nic, const NicPort& port, GidChoice gid, bool is_spare);

    [[nodiscard]] std::string label() const;  ///< "mlx5_0:1"
    [[nodiscard]] const Nic& nic() const { return nic_; }
    [[nodiscard]] const NicPort& port() const { return port_; }
    [[nodiscard]] const GidChoice& gid() const { return gid_; }
    [[nodiscard]] Rail rail() const;
    [[nodiscard]] bool is_spare() const { return is_spare_; }
    [[nodiscard]] ibv_context* context() const { return context_.get(); }
    [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }

    /// Throws where the device has said that it or one of its queues is broken, or its port down.
    /// `who` names the peers of a queue pair, or of all that are not done yet (nullptr).
    void check_events(const std::function<std::string(const ibv_qp*)>& who) const;

    /// A completion queue with room for `entries` more. Queues are made as large as the device
    /// allows for the `expected` entries still to come.
    [[nodiscard]] ibv_cq* reserve(int entries, int expected);
    [[nodiscard]] const std::vector<QueuePtr>& queues() const { return queues_; }
    void drop_queues();

    Bytes completed = 0;  ///< payload bytes that completions have confirmed

private:
    Nic nic_;
    NicPort port_;
    GidChoice gid_;
    bool is_spare_;
    ContextPtr context_;
    DomainPtr domain_;
    std::vector<QueuePtr> queues_;
    int room_ = 0;  ///< in the last queue
};

/// How a NIC was given memory.
enum class Method : std::uint8_t { Host, DmaBuf, PeerMem };
[[nodiscard]] std::string_view to_string(Method method);
/// Pure. What to try, in this order, for memory of a kind: a device pointer is never registered as
/// if it were host memory, which some drivers accept and then do not what was meant.
[[nodiscard]] std::vector<Method> methods_for(memory::MemoryKind kind, Registration asked,
                                              bool has_peermem);
/// Whether the kernel module is loaded that lets ibv_reg_mr take GPU addresses.
[[nodiscard]] bool has_peermem(const std::string& root = "");

/// Memory registered with one device, in pieces of `piece` bytes, each within one extent.
class Region {
public:
    /// access as ibv_access_flags. Throws with what each method that was tried has said.
    /// The last `left_out` bytes are left out, for tests.
    Region(const Device& device, const memory::Arena& arena, int access, Bytes piece,
           Registration asked, Bytes left_out = 0);
    [[nodiscard]] Method method() const { return method_; }

    [[nodiscard]] std::uint32_t local_key(Bytes offset) const {
        return pieces_[offset / piece_]->lkey;
    }
    [[nodiscard]] std::vector<std::uint32_t> remote_keys() const;

private:
    Bytes piece_;
    Method method_ = Method::Host;
    std::vector<MemoryPtr> pieces_;
};

/// Memory that work requests read from.
struct LocalMemory {
    std::byte* base = nullptr;
    const Region* region = nullptr;
    [[nodiscard]] ibv_sge entry(Bytes offset, Bytes bytes) const {
        return {reinterpret_cast<std::uint64_t>(base + offset), static_cast<std::uint32_t>(bytes),
                region->local_key(offset)};
    }
};

/// What a queue pair is asked to hold; the constructor lowers it to what was granted.
struct Shape {
    int sends = 0, receives = 0, sge = 1, inline_bytes = 0;
};

/// Where a queue pair is found by its peer.
struct Endpoint {
    std::uint32_t number = 0, first_packet = 0;
};

/// A reliable connection.
class QueuePair {
public:
    /// In state INIT: receives may be posted, nothing arrives yet. `access` is what the peer may
    /// do, as ibv_access_flags.
    QueuePair(Device& device, Shape shape, const VerbsOptions& options, int access,
              int expected_entries);
    [[nodiscard]] Endpoint endpoint() const { return {pair_->qp_num, first_packet_}; }
    [[nodiscard]] const Shape& shape() const { return shape_; }
    [[nodiscard]] ibv_qp* get() const { return pair_.get(); }

    /// To RTS. `options` gives times and retries.
    void connect(const Rail& peer, Endpoint endpoint, const VerbsOptions& options);
    void post_receive(std::uint64_t id);
    /// To the error state: nothing arrives any more, nothing leaves.
    void fence() noexcept;

private:
    Device* device_;
    Shape shape_;
    std::uint32_t first_packet_;
    PairPtr pair_;
};

}  // namespace weightlift::transport::verbs
