#include "rows.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weightlift/mpi/deadline.hpp"

#include "../strided.hpp"

namespace weightlift::transport::verbs {
namespace {

constexpr std::size_t kMostSizes = 8;
constexpr Bytes kProbed = 256 * KiB;  ///< bytes of one measurement, at most
/// The best of many short rounds, in which all kinds take turns: what else the processor does
/// disturbs some rounds, and not one kind alone.
constexpr int kLeastRounds = 5, kMostRounds = 40;
constexpr double kSeconds = 0.1;  ///< for one size of row

double seconds_since(mpi::Clock::time_point begin) {
    return std::chrono::duration<double>(mpi::Clock::now() - begin).count();
}

/// Writes into a peer's scratch through one queue pair, one measurement at a time.
class Prober {
public:
    Prober(Device& device, Connections& connections, Channel& channel, const RemoteMemory& there,
           const LocalMemory& here, Bytes bytes, const Context& context)
        : device_(device),
          connections_(connections),
          channel_(channel),
          there_(there),
          here_(here),
          bytes_(std::min(bytes, there.bytes)),
          context_(context) {}

    /// One measurement: bytes per second; 0 where a row does not fit.
    double rate(Bytes row, std::uint64_t rows) {
        if (2 * row > bytes_) return 0;
        rows = std::min<std::uint64_t>(rows, bytes_ / (2 * row));
        const auto deepest = static_cast<std::uint64_t>(channel_.pair->shape().sends) / 8;
        const std::uint64_t count = std::clamp<std::uint64_t>(kProbed / (row * rows), 1,
                                                              std::max<std::uint64_t>(1, deepest));
        const auto begin = mpi::Clock::now();
        write(row, rows, count);
        return static_cast<double>(row * rows * count) / seconds_since(begin);
    }

private:
    void write(Bytes row, std::uint64_t rows, std::uint64_t count) {
        std::vector<ibv_sge> entries;
        for (std::uint64_t r = 0; r < rows; ++r)
            entries.push_back(here_.entry(r * 2 * row % (bytes_ - row + 1), row));
        for (std::uint64_t i = 0; i < count; ++i) {
            ibv_send_wr request{};
            request.wr_id = pack_id({Kind::Send, channel_.id, static_cast<std::uint32_t>(i)});
            request.sg_list = entries.data();
            request.num_sge = static_cast<int>(entries.size());
            request.opcode = IBV_WR_RDMA_WRITE;
            request.send_flags = i + 1 == count ? IBV_SEND_SIGNALED : 0;
            const Bytes at = i * row * rows % (bytes_ - row * rows + 1);
            request.wr.rdma.remote_addr = there_.base + at;
            request.wr.rdma.rkey = there_.key(channel_.peer_rail, at);
            ibv_send_wr* bad = nullptr;
            if (const int error = ibv_post_send(channel_.pair->get(), &request, &bad); error != 0)
                throw system_error("cannot post a trial write to " + context_.label(channel_.peer),
                                   error);
        }
        wait();
    }

    void wait() {
        const mpi::Deadline deadline(context_.timeout);
        while (true) {
            for (const QueuePtr& queue : device_.queues()) {
                ibv_wc completion{};
                while (ibv_poll_cq(queue.get(), 1, &completion) > 0) {
                    if (connections_.take(completion)) continue;
                    if (completion.status != IBV_WC_SUCCESS)
                        throw TransportError(fmt::format(
                            "verbs: a trial write on {} to {} failed: {}", device_.label(),
                            context_.label(channel_.peer), ibv_wc_status_str(completion.status)));
                    return;
                }
            }
            if (deadline.passed())
                throw DeadlineError(fmt::format("verbs: a trial write on {} to {} did not complete",
                                                device_.label(), context_.label(channel_.peer)));
        }
    }

    Device& device_;
    Connections& connections_;
    Channel& channel_;
    const RemoteMemory& there_;
    LocalMemory here_;
    Bytes bytes_;
    const Context& context_;
};

/// Rows from one buffer into another, by this processor.
double copy_rate(Bytes row) {
    const Bytes rows = std::max<Bytes>(1, kSlotBytes / row);
    std::vector<std::byte> from(2 * rows * row), to(rows * row);
    const auto begin = mpi::Clock::now();
    copy_rows(to.data(), row, from.data(), 2 * row, rows, row);
    return static_cast<double>(rows * row) / seconds_since(begin);
}

RowRates best_rates(Prober& prober, Bytes size, std::uint64_t gathered, Bytes longest) {
    RowRates best;
    const auto begin = mpi::Clock::now();
    for (int round = 0; round < kMostRounds; ++round) {
        if (round >= kLeastRounds && seconds_since(begin) > kSeconds) break;
        best.bulk = std::max(best.bulk, prober.rate(longest, 1));
        best.gathered = std::max(best.gathered, prober.rate(size, gathered));
        best.single = std::max(best.single, prober.rate(size, 1));
        best.copied = std::max(best.copied, copy_rate(size));
    }
    return best;
}

}  // namespace

RowRule::Choice RowRule::choose(Bytes row_bytes) const {
    if (by_size.empty() || row_bytes == 0) return otherwise;
    const auto at = by_size.find(std::bit_floor(row_bytes));
    return at == by_size.end() ? otherwise : at->second;
}

void RowRule::never_unpack() {
    for (auto& [size, choice] : by_size) choice.unpacks = false;
    otherwise.unpacks = false;
    why += fmt::format("{}segments: no row is unpacked", why.empty() ? "" : "; ");
}

RowRule fixed_rule(Rows rows) {
    return {.by_size = {},
            .otherwise = {.packs = rows == Rows::Pack || rows == Rows::Unpack,
                          .unpacks = rows == Rows::Unpack},
            .why = ""};
}

RowRule::Choice choose_rows(const RowRates& r) {
    if (r.bulk <= 0 || r.copied <= 0) return {};
    const double staged = 1 / (1 / r.bulk + 1 / r.copied);
    return {.packs = r.gathered < staged, .unpacks = r.single < staged};
}

RowRule measure_rows(std::span<const Copy> copies, Device& device, Connections& connections,
                     const Peer& peer, const LocalMemory& scratch, Bytes scratch_bytes,
                     const Context& context) {
    std::map<Bytes, Bytes> bytes_of;  // by size of row
    for (const Copy& copy : copies) {
        const bool is_strided =
            copy.rows > 1 && (copy.src_pitch != copy.row_bytes || copy.dst_pitch != copy.row_bytes);
        if (is_strided && copy.row_bytes <= kSlotBytes)
            bytes_of[std::bit_floor(copy.row_bytes)] += copy.bytes();
    }
    RowRule rule;
    if (bytes_of.empty()) return rule;
    std::vector<std::pair<Bytes, Bytes>> sizes;  // most bytes first
    for (const auto& [size, bytes] : bytes_of) sizes.emplace_back(bytes, size);
    std::sort(sizes.rbegin(), sizes.rend());
    if (sizes.size() > kMostSizes) sizes.resize(kMostSizes);

    Channel* channel = nullptr;
    for (const std::uint32_t id : peer.outgoing)
        if (channel == nullptr) channel = &connections.channel(id);
    Prober prober(device, connections, *channel, peer.offer.probe, scratch, scratch_bytes, context);
    std::vector<std::string> texts;
    for (const auto& [bytes, size] : sizes) {
        const RowRates rates =
            best_rates(prober, size, static_cast<std::uint64_t>(channel->pair->shape().sge),
                       scratch_bytes / 2);
        const RowRule::Choice choice = choose_rows(rates);
        rule.by_size[size] = choice;
        texts.push_back(fmt::format(
            "{} B: {}, {} ({:.3g} MB/s gathered, {:.3g} single, {:.3g} copied, {:.3g} long)", size,
            choice.packs ? "pack" : "gather", choice.unpacks ? "unpack" : "direct",
            rates.gathered / 1e6, rates.single / 1e6, rates.copied / 1e6, rates.bulk / 1e6));
    }
    rule.why = fmt::format("{}", fmt::join(texts, "; "));
    return rule;
}

}  // namespace weightlift::transport::verbs
