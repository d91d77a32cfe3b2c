#include "requests.hpp"

#include <algorithm>

#include "../strided.hpp"

namespace weightlift::transport::verbs {
namespace {

/// Bytes from `offset` to the next border of pieces.
Bytes to_border(Bytes offset, Bytes piece) { return piece - offset % piece; }

bool crosses(Bytes offset, Bytes bytes, Bytes piece) { return bytes > to_border(offset, piece); }

class Cutter {
public:
    Cutter(const CutRules& rules, std::vector<Request>& out) : rules_(rules), out_(out) {}

    void cut(const Copy& copy) {
        if (join_rows(copy).rows == 1) {
            run(copy.destination, copy.src_offset, copy.dst_offset, copy.bytes());
            return;
        }
        const bool fits_slot = copy.row_bytes <= rules_.slot;
        const bool is_strided_here = copy.src_pitch != copy.row_bytes;
        const bool is_strided_there = copy.dst_pitch != copy.row_bytes;
        if (is_strided_there && fits_slot && rules_.unpacks(copy.row_bytes))
            parcels(copy, is_strided_here);
        else if (is_strided_here && !is_strided_there && fits_slot && rules_.packs(copy.row_bytes))
            packs(copy);
        else if (is_strided_here && !is_strided_there)
            gathers(copy);
        else
            for (std::uint64_t row = 0; row < copy.rows; ++row) one_row(copy, row);
    }

private:
    [[nodiscard]] Bytes dst_piece(const Copy& copy) const {
        return rules_.dst_piece[copy.destination];
    }

    void run(std::uint32_t destination, Bytes src, Bytes dst, Bytes bytes) {
        while (bytes > 0) {
            const Bytes n = std::min({bytes, rules_.chunk, to_border(src, rules_.src_piece),
                                      to_border(dst, rules_.dst_piece[destination])});
            out_.push_back({.destination = destination,
                            .src_offset = src,
                            .src_pitch = n,
                            .dst_offset = dst,
                            .dst_pitch = n,
                            .rows = 1,
                            .row_bytes = n});
            src += n;
            dst += n;
            bytes -= n;
        }
    }

    void one_row(const Copy& copy, std::uint64_t row) {
        run(copy.destination, copy.src_offset + row * copy.src_pitch,
            copy.dst_offset + row * copy.dst_pitch, copy.row_bytes);
    }

    static Request rows_of(const Copy& copy, std::uint64_t row, std::uint64_t rows) {
        return {.destination = copy.destination,
                .src_offset = copy.src_offset + row * copy.src_pitch,
                .src_pitch = copy.src_pitch,
                .dst_offset = copy.dst_offset + row * copy.dst_pitch,
                .dst_pitch = copy.dst_pitch,
                .rows = rows,
                .row_bytes = copy.row_bytes};
    }

    /// As many rows as one request takes; a row at a border of pieces goes by itself.
    void gathers(const Copy& copy) {
        for (std::uint64_t row = 0; row < copy.rows;) {
            const std::uint64_t most =
                std::min({copy.rows - row, rules_.sge,
                          std::max<std::uint64_t>(1, rules_.chunk / copy.row_bytes)});
            std::uint64_t rows = 0;
            while (rows < most &&
                   !crosses(copy.src_offset + (row + rows) * copy.src_pitch, copy.row_bytes,
                            rules_.src_piece) &&
                   !crosses(copy.dst_offset + row * copy.dst_pitch, (rows + 1) * copy.row_bytes,
                            dst_piece(copy)))
                ++rows;
            if (rows <= 1) {
                one_row(copy, row);
                rows = 1;
            } else {
                out_.push_back(rows_of(copy, row, rows));
            }
            row += rows;
        }
    }

    void packs(const Copy& copy) {
        const Bytes most = std::min(rules_.slot, std::max(rules_.chunk, copy.row_bytes));
        for (std::uint64_t row = 0; row < copy.rows;) {
            const Bytes room =
                std::min(most, to_border(copy.dst_offset + row * copy.dst_pitch, dst_piece(copy)));
            const std::uint64_t rows = std::min(copy.rows - row, room / copy.row_bytes);
            if (rows == 0) {
                one_row(copy, row++);
                continue;
            }
            out_.push_back(rows_of(copy, row, rows));
            out_.back().is_packed = true;
            row += rows;
        }
    }

    /// Borders of the peer's pieces do not matter: it cuts the rows out itself.
    void parcels(const Copy& copy, bool is_strided_here) {
        const Bytes most = std::min(rules_.slot, std::max(rules_.chunk, copy.row_bytes));
        const std::uint64_t step = most / copy.row_bytes;
        for (std::uint64_t row = 0; row < copy.rows; row += step) {
            Request request = rows_of(copy, row, std::min(step, copy.rows - row));
            request.is_parcel = true;
            // A contiguous source leaves as one piece, unless it lies in two.
            request.is_packed =
                is_strided_here || crosses(request.src_offset, request.bytes(), rules_.src_piece);
            out_.push_back(request);
        }
    }

    const CutRules& rules_;
    std::vector<Request>& out_;
};

}  // namespace

std::vector<Request> cut_copies(std::span<const Copy> copies, const CutRules& rules) {
    std::vector<Request> requests;
    Cutter cutter(rules, requests);
    for (const Copy& copy : copies)
        if (copy.bytes() > 0) cutter.cut(copy);
    return requests;
}

std::vector<std::uint32_t> deal_requests(std::span<const Request> requests,
                                         std::span<const std::vector<double>> channels) {
    std::vector<std::vector<double>> loads(channels.size());
    for (std::size_t d = 0; d < channels.size(); ++d) loads[d].assign(channels[d].size(), 0);
    std::vector<std::uint32_t> dealt;
    dealt.reserve(requests.size());
    for (const Request& request : requests) {
        const std::vector<double>& rates = channels[request.destination];
        std::vector<double>& load = loads[request.destination];
        std::size_t least = 0;
        double least_end = 0;
        for (std::size_t c = 0; c < rates.size(); ++c) {
            const double rate = rates[c] > 0 ? rates[c] : 1;
            const double end = (load[c] + static_cast<double>(request.bytes())) / rate;
            if (c == 0 || end < least_end) {
                least = c;
                least_end = end;
            }
        }
        load[least] += static_cast<double>(request.bytes());
        dealt.push_back(static_cast<std::uint32_t>(least));
    }
    return dealt;
}

}  // namespace weightlift::transport::verbs
