#include "prediction_text.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace weightlift::app {

std::string milliseconds(double seconds) {
    return fmt::format("{} ms", show_ms(static_cast<std::uint64_t>(seconds * 1e9)));
}

std::string name_of(const sim::PortId& port, const sim::Fabric& fabric) {
    const std::string name = to_string(port);
    if (port.kind != sim::PortKind::Nic) return name;
    Rank first = -1, last = -1;
    for (Rank rank = 0; rank < fabric.ranks(); ++rank) {
        const sim::Place& place = fabric.place(rank);
        if (place.node != port.node || place.port != port.index) continue;
        if (first < 0) first = rank;
        last = rank;
    }
    const std::string ranks =
        first == last ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, last);
    return fmt::format("NIC {} of node {} ({}), {}", port.index, port.node, ranks,
                       port.is_send ? "send" : "receive");
}

std::string prediction_text(const sim::Prediction& p, const sim::Fabric& fabric, Bytes bytes) {
    std::vector<std::vector<std::string>> rows{
        {fmt::format("busiest on {}", fabric.cluster().name), "bytes", "messages", "at least"}};
    for (const sim::Port& port : p.busiest)
        rows.push_back({name_of(port, fabric), human_bytes(port.bytes),
                        std::to_string(port.messages), milliseconds(port.seconds)});
    std::string text = align(rows);
    text += fmt::format("predicted time: at least {} ({} by bandwidth, {} by message rate)\n",
                        milliseconds(p.seconds()), milliseconds(p.bandwidth_seconds),
                        milliseconds(p.message_seconds));
    if (p.nvlink_bytes > 0)
        text += fmt::format("inside NVLink domains: {} of {}\n", human_bytes(p.nvlink_bytes),
                            human_bytes(bytes));
    return text;
}

std::string simulation_text(const sim::Simulation& s, const sim::Prediction& p) {
    return fmt::format(
        "simulated time: {}, {:.3f} x floor; at most {:.3g} writing to one NIC at once\n",
        milliseconds(s.seconds), p.seconds() > 0 ? s.seconds / p.seconds() : 1, s.most_writers);
}

}  // namespace weightlift::app
