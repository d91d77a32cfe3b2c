#include "axis.hpp"

#include <cmath>

namespace weightlift::report {

namespace {

/// 1, 2 or 5 times a power of ten, so that about five steps make up the range.
double round_step(double range) {
    const double power = std::pow(10, std::floor(std::log10(range / 5)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (range / (factor * power) <= 6) return factor * power;
    return 10 * power;
}

}  // namespace

Axis Axis::linear(double low, double high, double from, double to) {
    Axis axis;
    axis.low_ = low;
    axis.high_ = high > low ? high : low + 1;
    axis.from_ = from;
    axis.to_ = to;
    return axis;
}

Axis Axis::logarithmic(double low, double high, double from, double to) {
    Axis axis = linear(low, high > low ? high : 10 * low, from, to);
    axis.is_logarithmic_ = true;
    return axis;
}

double Axis::operator()(double value) const {
    const double share = is_logarithmic_ ? std::log(value / low_) / std::log(high_ / low_)
                                         : (value - low_) / (high_ - low_);
    return from_ + share * (to_ - from_);
}

std::vector<double> Axis::ticks() const {
    std::vector<double> out;
    if (!is_logarithmic_) {
        const double step = round_step(high_ - low_);
        // By number, not by addition: 0.1 + 0.2 would print as 0.30000000000000004.
        for (double n = std::ceil(low_ / step); n * step <= high_ * (1 + 1e-9); ++n)
            out.push_back(n * step);
        return out;
    }
    const bool has_few = high_ / low_ < 1e3;
    for (double power = std::pow(10, std::floor(std::log10(low_))); power <= high_; power *= 10)
        for (const double factor : {1.0, 2.0, 5.0})
            if (const double tick = factor * power;
                tick >= low_ && tick <= high_ && (has_few || factor < 2))
                out.push_back(tick);
    return out;
}

}  // namespace weightlift::report
