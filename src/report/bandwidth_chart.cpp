#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "weightlift/record/figures.hpp"

#include "axis.hpp"
#include "charts.hpp"
#include "html.hpp"

namespace weightlift::report {

namespace {

constexpr double kWidth = 760, kHeight = 330, kLeft = 60, kRight = 20, kTop = 24, kBottom = 285;

struct Point {
    const Entry* entry;
    std::size_t row;              ///< of the table of results, from 1
    double size, rate, at_floor;  ///< bytes, GB/s; at_floor is 0 where no floor is known
};

std::vector<Point> points_of(const Study& study) {
    std::vector<Point> points;
    std::size_t number = 0;
    for (const Group& group : study.groups) {
        ++number;
        for (const Entry& entry : group.entries) {
            const record::CaseInfo& info = entry.one->info;
            if (!is_right(entry) || entry.summary.algbw <= 0 || info.copies == 0) continue;
            const bool has_floor = info.floor_ns != record::kNotMeasured && info.floor_ns > 0;
            const auto bytes = static_cast<double>(info.bytes);
            points.push_back({&entry, number, bytes / static_cast<double>(info.copies),
                              entry.summary.algbw / 1e9,
                              has_floor ? bytes / static_cast<double>(info.floor_ns) : 0});
        }
    }
    return points;
}

std::string size_label(double bytes) {
    return human_bytes(static_cast<Bytes>(std::llround(bytes)));
}

/// "100 kB": of a tick, without digits that say nothing.
std::string round_label(double bytes) {
    const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    std::size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < std::size(units)) {
        bytes /= 1000;
        ++unit;
    }
    return fmt::format("{:g} {}", bytes, units[unit]);
}

}  // namespace

std::string bandwidth_chart(const Study& study) {
    const auto points = points_of(study);
    if (points.empty()) return "<p>No case has a bandwidth to show.</p>\n";
    double low_size = points[0].size, high_size = low_size, low_rate = points[0].rate,
           high_rate = 0;
    bool has_floor = false;
    for (const Point& p : points) {
        low_size = std::min(low_size, p.size);
        high_size = std::max(high_size, p.size);
        low_rate = std::min(low_rate, p.rate);
        high_rate = std::max({high_rate, p.rate, p.at_floor});
        has_floor = has_floor || p.at_floor > 0;
    }
    const Axis x = Axis::logarithmic(low_size / 2, high_size * 2, kLeft, kWidth - kRight);
    // From 0 as long as the slowest case is still more than a line at the bottom.
    const Axis y = high_rate < 40 * low_rate
                       ? Axis::linear(0, 1.08 * high_rate, kBottom, kTop)
                       : Axis::logarithmic(low_rate / 1.5, 1.5 * high_rate, kBottom, kTop);

    std::string out = fmt::format(
        R"(<svg class="chart wide" role="img" aria-label="bandwidth over mean copy size" viewBox="0 0 {} {}">)"
        "\n"
        R"(<text class="name" x="4" y="12">algbw, GB/s</text>)"
        "\n",
        kWidth, kHeight);
    for (const double tick : y.ticks())
        out += fmt::format(
            R"(<line class="grid" x1="{0}" y1="{1:.1f}" x2="{2}" y2="{1:.1f}"/><text class="tick end" x="{3}" y="{4:.1f}">{5:g}</text>)"
            "\n",
            kLeft, y(tick), kWidth - kRight, kLeft - 6, y(tick) + 4, tick);
    for (const double tick : x.ticks())
        out += fmt::format(
            R"(<line class="grid" x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}"/><text class="tick middle" x="{0:.1f}" y="{3}">{4}</text>)"
            "\n",
            x(tick), kTop, kBottom, kBottom + 15, round_label(tick));
    out += fmt::format(
        R"(<text class="name end" x="{}" y="{}">mean size of a copy: bytes / copies of the plan</text>)"
        "\n",
        kWidth - kRight, kBottom + 34);
    std::vector<std::pair<double, double>> labels;  // where there is one already
    for (const Point& p : points) {
        const double px = x(p.size), py = y(p.rate);
        out += fmt::format(R"(<g style="--mine:{}">)", file_colour(p.entry->file));
        if (p.at_floor > 0)
            out += fmt::format(
                R"(<line class="gap" x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}"/><path class="bound" d="M{3:.1f} {2:.1f}h14"/>)",
                px, py, y(p.at_floor), px - 7);
        out += fmt::format(R"(<circle class="push" cx="{:.1f}" cy="{:.1f}" r="4"/>)", px, py);
        const bool is_free = std::none_of(labels.begin(), labels.end(), [&](const auto& other) {
            return std::abs(other.first - px) < 18 && std::abs(other.second - py) < 11;
        });
        if (is_free) {
            labels.emplace_back(px, py);
            out += fmt::format(R"(<text class="tick" x="{:.1f}" y="{:.1f}">{}</text>)", px + 7,
                               py + 4, p.row);
        }
        out += fmt::format("<title>{} {} ({}): {} GB/s, mean copy {}{}</title></g>\n", p.row,
                           escape(study.groups[p.row - 1].name), file_label(p.entry->file),
                           record::show_rate(p.entry->summary.algbw), size_label(p.size),
                           p.at_floor > 0 ? fmt::format(", {} GB/s at the floor",
                                                        record::show_rate(p.at_floor * 1e9))
                                          : "");
    }
    out += "</svg>\n";
    out += has_floor
               ? "<p class=\"note\">A bar above a point is the bandwidth at the plan's floor, "
                 "for the rates of the cluster description. Numbers are rows of the table "
                 "of results.</p>\n"
               : "<p class=\"note\">No floor is known: it needs the rates of a cluster "
                 "(<code>push --cluster</code>). Numbers are rows of the table of "
                 "results.</p>\n";
    return out;
}

}  // namespace weightlift::report
