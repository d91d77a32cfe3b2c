// A libibverbs for tests: devices, memory and reliable connections of one process over a network
// that moves only when somebody polls, by a number of steps that the seed decides. It checks what a
// device checks and misbehaves where told to. Linked before libibverbs, its definitions win.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

namespace weightlift::fake {

struct Gid {
    std::array<std::uint8_t, 16> bytes{};  ///< all zero: an empty slot of the table
    ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
    std::uint32_t interface = 1;  ///< netdev "fakeN", which has the address; 0: of none seen here
};
[[nodiscard]] Gid ipv4_gid(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d);
[[nodiscard]] Gid infiniband_gid(std::uint64_t subnet, std::uint64_t guid);

struct Port {
    std::uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
    ibv_port_state state = IBV_PORT_ACTIVE;
    ibv_mtu max_mtu = IBV_MTU_4096, active_mtu = IBV_MTU_4096;
    std::uint16_t lid = 0;
    bool needs_grh = false;
    std::uint8_t width = 2, speed = 32;  ///< 4 lanes of 25 Gbit/s
    std::uint32_t max_message = 1U << 30;
    std::vector<Gid> gids;
    std::vector<std::uint16_t> pkeys{0xffff};
};

struct Device {
    std::string name;
    std::vector<Port> ports;
    bool has_rc = true;
    int max_qp = 1024, max_qp_wr = 4096, max_sge = 30, max_cq = 1024, max_cqe = 1 << 20;
    int max_mr = 4096, max_rd_atomic = 16;
    std::uint64_t max_mr_size = 1ULL << 40;
    std::uint32_t max_inline = 256;
    int granted_sge = 0;         ///< most SGEs that ibv_create_qp grants; 0: what was asked for
    bool slots_by_sges = false;  ///< a request with n SGEs takes ceil((2 + n) / 4) of the queue
    bool has_dma_buf = true;     ///< ibv_reg_dmabuf_mr maps any file; false: EOPNOTSUPP
    std::uint32_t vendor = 0x02c9, part = 4129;
};

/// One Ethernet port with the address 10.0.`subnet`.1 on netdev "fake`subnet`".
[[nodiscard]] Device roce_device(const std::string& name, std::uint8_t subnet);
/// One InfiniBand port that has `lid`.
[[nodiscard]] Device infiniband_device(const std::string& name, std::uint16_t lid);

/// When a write's bytes are placed. In all cases not later than the completion of the receive that
/// follows it on its queue pair is polled, which is all that a device promises.
enum class Placement : std::uint8_t {
    AtExecution,           ///< before the write is acknowledged
    AtReceivePoll,         ///< acknowledged first, placed when that completion is polled
    AfterAcknowledgement,  ///< at any time between the two, in any order
};

struct Scenario {
    std::vector<Device> devices;
    std::uint64_t seed = 1;
    Placement placement = Placement::AtExecution;
    unsigned most_steps = 16;        ///< of the network in one poll
    bool refuses_posts = false;      ///< ibv_post_send takes fewer requests than there is room for
    bool keeps_completions = false;  ///< those of a destroyed queue pair can still be polled
};

/// Forgets everything and begins anew. No verbs object of before may be left.
void begin(Scenario scenario);

/// The `nth` work request (from 0) of a queue pair fails with `status`, once.
struct WorkFault {
    std::uint64_t nth = 0;
    ibv_wc_status status = IBV_WC_REM_OP_ERR;
    int queue_pair = -1;  ///< in order of creation over all devices; -1: the first to get there
};
void fail_work(const WorkFault& fault);

/// What befalls the `nth` immediate value (from 0) that is delivered.
struct ImmediateFault {
    enum class Kind : std::uint8_t { Duplicate, Drop, Replace } kind = Kind::Drop;
    std::uint64_t nth = 0;
    std::uint32_t value = 0;  ///< of Replace, host order
};
void disturb_immediate(const ImmediateFault& fault);

/// Immediate values delivered so far, and requests posted to a queue pair (in order of creation).
[[nodiscard]] std::uint64_t immediates();
[[nodiscard]] std::uint64_t posted(int queue_pair);

/// All remote keys given out so far are void.
void revoke_remote_keys();

/// While true, no packet reaches its peer.
void lose_packets(bool all);

/// The `nth` registration (from 0) fails with `error`.
void fail_registration(std::uint64_t nth, int error);

/// What a program has asked to be registered, granted or not, in its order.
struct Registration {
    std::string device;
    bool is_dma_buf = false;               ///< else by ibv_reg_mr and its like
    std::uint64_t address = 0, bytes = 0;  ///< as in work requests
};
[[nodiscard]] const std::vector<Registration>& registrations();

/// An asynchronous event and what it means: IBV_EVENT_PORT_ERR and _ACTIVE take and bring the port
/// (`element` is its number), IBV_EVENT_DEVICE_FATAL stops all queue pairs, IBV_EVENT_QP_FATAL and
/// IBV_EVENT_CQ_ERR the one that is `element`th of those now alive on the device.
void raise(std::size_t device, ibv_event_type event, std::size_t element);

/// Lets the network do exactly this many steps, or as many as there are.
void advance(std::uint64_t steps);

struct Counters {
    std::uint64_t doorbells = 0;  ///< calls of ibv_post_send
    std::uint64_t requests = 0, sges = 0, signaled = 0, inlined = 0, receives = 0;
    int most_sges = 0;                                       ///< of one request
    std::uint64_t most_bytes = 0;                            ///< of one request
    std::map<ibv_wr_opcode, std::uint64_t> executed, bytes;  ///< by opcode
    std::uint64_t placed_bytes = 0;                          ///< written into this device's regions
    std::uint64_t immediates = 0;                            ///< delivered by this device
    std::uint64_t not_ready = 0;                             ///< attempts that met no receive
    std::uint64_t refused = 0;  ///< requests that ibv_post_send did not take
};
[[nodiscard]] const Counters& counters(std::size_t device);
/// Most bytes that were posted and not acknowledged at one time, over all devices.
[[nodiscard]] std::uint64_t most_outstanding();

struct Objects {
    std::size_t lists = 0, contexts = 0, domains = 0, regions = 0, channels = 0,
                completion_queues = 0, queue_pairs = 0;
    friend bool operator==(const Objects&, const Objects&) = default;
};
[[nodiscard]] Objects objects();

/// What a real device or library answers with a hang or with corruption: an object destroyed before
/// its events were acknowledged, a blocking wait for what can't come, …
[[nodiscard]] const std::vector<std::string>& misuses();

}  // namespace weightlift::fake
