#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "charts.hpp"
#include "html.hpp"

namespace weightlift::report {

namespace {

/// Ranks of one side of the map, cut into at most kMapSide equal runs.
class Side {
public:
    explicit Side(const std::set<std::int32_t>& ranks)
        : ranks_(ranks.begin(), ranks.end()), width_(ceil_div(ranks_.size(), kMapSide)) {}

    [[nodiscard]] std::size_t cells() const { return ceil_div(ranks_.size(), width_); }
    [[nodiscard]] std::size_t cell_of(std::int32_t rank) const {
        const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
        return static_cast<std::size_t>(at - ranks_.begin()) / width_;
    }
    [[nodiscard]] std::string label(std::size_t cell) const {
        const std::size_t first = cell * width_;
        const std::size_t last = std::min(ranks_.size(), first + width_) - 1;
        return first == last ? std::to_string(ranks_[first])
                             : fmt::format("{}–{}", ranks_[first], ranks_[last]);
    }
    [[nodiscard]] std::size_t width() const { return width_; }

private:
    std::vector<std::int32_t> ranks_;
    std::size_t width_;
};

}  // namespace

std::string traffic_map(const Entry& entry) {
    const auto& traffic = entry.one->traffic;
    if (traffic.empty()) return "<p>No traffic is recorded: the run did not come to its end.</p>\n";
    std::set<std::int32_t> from, to;
    std::map<std::string, Bytes> by_transport;
    for (const record::TrafficRow& pair : traffic) {
        from.insert(pair.src);
        to.insert(pair.dst);
        by_transport[pair.transport] += pair.bytes;
    }
    const Side sources(from), targets(to);
    std::map<std::pair<std::size_t, std::size_t>, Bytes> cells;
    Bytes most = 0;
    for (const record::TrafficRow& pair : traffic)
        most = std::max(
            most, cells[{sources.cell_of(pair.src), targets.cell_of(pair.dst)}] += pair.bytes);

    const double side = std::clamp(400.0 / static_cast<double>(targets.cells()), 16.0, 30.0);
    const double left = 64, top = 40;
    const double width = std::max(200.0, left + side * static_cast<double>(targets.cells()) + 16),
                 height = top + side * static_cast<double>(sources.cells()) + 6;
    std::string out = fmt::format(
        R"(<svg class="map" role="img" aria-label="bytes by source and destination" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}">)"
        "\n"
        R"(<text class="name" x="{2}" y="12">to rollout (plan rank)</text><text class="name" x="4" y="{3}">from</text>)"
        "\n",
        width, height, left, top - 6);
    // A label needs some 28 (14) pixels of width (height).
    const auto step = [](double need, double have) {
        return static_cast<std::size_t>(std::max(1.0, std::ceil(need / have)));
    };
    const std::size_t every_column = step(targets.width() > 1 ? 56 : 24, side);
    for (std::size_t c = 0; c < targets.cells(); c += every_column)
        out += fmt::format(R"(<text class="tick middle" x="{:.1f}" y="{}">{}</text>)",
                           left + side * (static_cast<double>(c) + 0.5), top - 6, targets.label(c));
    for (std::size_t r = 0; r < sources.cells(); ++r)
        out += fmt::format(R"(<text class="tick end" x="{}" y="{:.1f}">{}</text>)", left - 6,
                           top + side * (static_cast<double>(r) + 0.5) + 4, sources.label(r));
    out += "\n";
    for (std::size_t r = 0; r < sources.cells(); ++r)
        for (std::size_t c = 0; c < targets.cells(); ++c) {
            const auto found = cells.find({r, c});
            const Bytes bytes = found == cells.end() ? 0 : found->second;
            const double share =
                bytes == 0 ? 0 : 0.1 + 0.9 * static_cast<double>(bytes) / static_cast<double>(most);
            out += fmt::format(
                R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" style="--share:{:.3f}" data-bytes="{}"><title>{} → {}: {}</title></rect>)"
                "\n",
                left + side * static_cast<double>(c), top + side * static_cast<double>(r), side - 1,
                side - 1, share, bytes, sources.label(r), targets.label(c), human_bytes(bytes));
        }
    out += "</svg>\n<p class=\"note\">Darkest: " + datum(bytes_cell(most)) + " per push.";
    for (const auto& [name, bytes] : by_transport)
        out += fmt::format(" By {}: {}.", escape(name), datum(bytes_cell(bytes)));
    if (sources.width() > 1 || targets.width() > 1)
        out += fmt::format(" A cell is {} × {} ranks.", sources.width(), targets.width());
    return out + "</p>\n";
}

}  // namespace weightlift::report
