#include <algorithm>

#include <fmt/format.h>

#include "weightlift/record/figures.hpp"

#include "axis.hpp"
#include "charts.hpp"
#include "html.hpp"

namespace weightlift::report {

namespace {

using record::kNotMeasured;
using record::Sample;

constexpr double kWidth = 520, kLeft = 56, kRight = 10, kTop = 12;
constexpr double kTimeBottom = 170, kRankTop = 200, kRankBottom = 262, kHeight = 296;
/// More iterations than this share columns: a column shows its least, middle and largest time.
constexpr std::size_t kColumns = 240;

struct Point {
    std::size_t first = 0, last = 0;  ///< iterations, last one included
    std::uint64_t low = 0, middle = 0, high = 0;
    bool is_warmup = false, is_wrong = false;
};

std::vector<Point> points_of(const std::vector<Sample>& samples) {
    const std::size_t width = std::max<std::size_t>(1, ceil_div(samples.size(), kColumns));
    std::vector<Point> points;
    for (std::size_t first = 0; first < samples.size(); first += width) {
        const std::size_t end = std::min(samples.size(), first + width);
        Point point{first, end - 1};
        std::vector<std::uint64_t> times;
        for (std::size_t i = first; i < end; ++i) {
            if (samples[i].time_ns != kNotMeasured) times.push_back(samples[i].time_ns);
            point.is_warmup = point.is_warmup || samples[i].warmup;
            point.is_wrong = point.is_wrong || samples[i].validity == record::Validity::Wrong;
        }
        if (times.empty()) continue;
        std::sort(times.begin(), times.end());
        point.low = times.front();
        point.middle = times[(times.size() - 1) / 2];
        point.high = times.back();
        points.push_back(point);
    }
    return points;
}

std::string title_of(const Entry& entry, const Point& point) {
    const auto& samples = entry.one->samples;
    if (point.first != point.last)
        return fmt::format("pushes {} to {}: {} to {} ms", point.first + 1, point.last + 1,
                           record::show_ms(point.low), record::show_ms(point.high));
    const Sample& sample = samples[point.first];
    const auto last = record::last_rank(sample);
    return fmt::format("push {}{}: {} ms, {}{}", point.first + 1, sample.warmup ? " (warm-up)" : "",
                       record::show_ms(sample.time_ns), record::show_check(sample.validity),
                       last ? "; last was " + rank_label(entry, *last) : "");
}

std::string line(const char* name, double x1, double y1, double x2, double y2) {
    return fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)"
                       "\n",
                       name, x1, y1, x2, y2);
}

std::string text(const char* name, double x, double y, const std::string& words) {
    return fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>)"
                       "\n",
                       name, x, y, escape(words));
}

/// Which rank was the last, for every iteration.
std::string last_ranks(const Entry& entry, const Axis& x) {
    const auto& samples = entry.one->samples;
    std::size_t ranks = 0;
    for (const Sample& sample : samples) ranks = std::max(ranks, sample.rank_time_ns.size());
    const Axis y = Axis::linear(0, ranks > 1 ? static_cast<double>(ranks - 1) : 1, kRankBottom - 4,
                                kRankTop + 4);
    std::string out = text("name", 4, kRankTop - 8, "slowest rank") +
                      line("axis", kLeft, kRankBottom, kWidth - kRight, kRankBottom) +
                      text("tick end", kLeft - 6, y(0) + 4, "0");
    if (ranks > 1)
        out += text("tick end", kLeft - 6, y(static_cast<double>(ranks - 1)) + 4,
                    std::to_string(ranks - 1));
    for (std::size_t i = 0; i < samples.size(); ++i)
        if (const auto last = record::last_rank(samples[i]))
            out += fmt::format(
                R"(<circle class="rank" cx="{:.1f}" cy="{:.1f}" r="2"><title>push {}: {}</title></circle>)"
                "\n",
                x(static_cast<double>(i + 1)), y(static_cast<double>(*last)), i + 1,
                escape(rank_label(entry, *last)));
    return out;
}

}  // namespace

double time_chart_top(const Entry& entry) {
    std::vector<std::uint64_t> times;
    for (const Sample& sample : entry.one->samples)
        if (!sample.warmup && sample.time_ns != kNotMeasured) times.push_back(sample.time_ns);
    // A run that was killed early may have nothing but warm-ups.
    if (times.empty() && entry.summary.first_ns != kNotMeasured)
        times.push_back(entry.summary.first_ns);
    if (times.empty()) return 0;
    std::sort(times.begin(), times.end());
    // A few pushes far above the others must not press those onto the axis.
    const auto high = static_cast<double>(times.back());
    const auto usual = static_cast<double>(times[(times.size() - 1) * 95 / 100]);
    return high <= 2 * usual ? 1.1 * high : 1.5 * usual;
}

std::string time_chart(const Entry& entry, double top_ns) {
    const auto& samples = entry.one->samples;
    const auto points = points_of(samples);
    if (points.empty()) return "<p>No iteration was finished.</p>\n";
    const Axis x = Axis::linear(1, std::max(2.0, static_cast<double>(samples.size())), kLeft + 6,
                                kWidth - kRight - 6);
    const Axis y = Axis::linear(0, top_ns / 1e6, kTimeBottom, kTop);
    std::string out = fmt::format(
        R"(<svg class="chart" role="img" aria-label="time per iteration" viewBox="0 0 {} {}" style="--mine:{}">)"
        "\n",
        kWidth, kHeight, file_colour(entry.file));
    out += text("name", 4, 10, "ms");
    for (const double tick : y.ticks())
        out += line("grid", kLeft, y(tick), kWidth - kRight, y(tick)) +
               text("tick end", kLeft - 6, y(tick) + 4, fmt::format("{:g}", tick));
    const auto level = [&](const char* name, std::uint64_t ns) {
        if (ns != kNotMeasured && static_cast<double>(ns) <= top_ns)
            out += line(name, kLeft, y(static_cast<double>(ns) / 1e6), kWidth - kRight,
                        y(static_cast<double>(ns) / 1e6));
    };
    level("median", entry.summary.p50_ns);
    level("floor", entry.one->info.floor_ns);
    for (const Point& p : points) {
        const auto at = [&](std::uint64_t ns) {
            return y(std::min(static_cast<double>(ns), top_ns) / 1e6);
        };
        const double middle = x(static_cast<double>(p.first + p.last) / 2 + 1);
        const char* name = p.is_wrong ? "push wrong" : p.is_warmup ? "push warmup" : "push";
        out += R"(<g>)";
        if (p.first != p.last) out += line("spread", middle, at(p.low), middle, at(p.high));
        // Above the axis: an arrow's head instead of a point.
        if (static_cast<double>(p.middle) > top_ns)
            out += fmt::format(R"(<path class="{}" d="M{:.1f} {:.1f}l4 8h-8z"/>)", name, middle,
                               kTop - 2);
        else
            out += fmt::format(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"/>)", name,
                               middle, at(p.middle));
        out += fmt::format("<title>{}</title></g>\n", escape(title_of(entry, p)));
    }
    out += line("axis", kLeft, kTimeBottom, kWidth - kRight, kTimeBottom);
    if (samples.size() <= 4 * kColumns) out += last_ranks(entry, x);
    for (const double tick : x.ticks())
        if (tick == static_cast<double>(static_cast<std::uint64_t>(tick)))
            out += text("tick middle", x(tick), kRankBottom + 14, fmt::format("{:g}", tick));
    out += text("name end", kWidth - kRight, kRankBottom + 27, "push, warm-ups included");
    return out + "</svg>\n";
}

}  // namespace weightlift::report
