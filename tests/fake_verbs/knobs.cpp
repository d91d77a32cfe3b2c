// What a test asks of the fake, and what it may read.
#include <unistd.h>

#include "world.hpp"

namespace weightlift::fake {

World& world() {
    static World one;
    return one;
}

std::uint64_t draw(std::uint64_t below) { return world().random() % below; }

void misuse(const std::string& what) { world().misuses.push_back(what); }

Gid ipv4_gid(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) {
    return {.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}};
}

Gid infiniband_gid(std::uint64_t subnet, std::uint64_t guid) {
    Gid gid{.type = IBV_GID_TYPE_IB, .interface = 0};
    for (unsigned i = 0; i < 8; ++i) {
        gid.bytes[i] = static_cast<std::uint8_t>(subnet >> (56 - 8 * i));
        gid.bytes[8 + i] = static_cast<std::uint8_t>(guid >> (56 - 8 * i));
    }
    return gid;
}

Device roce_device(const std::string& name, std::uint8_t subnet) {
    Gid link_local;
    link_local.bytes[0] = 0xfe;
    link_local.bytes[1] = 0x80;
    link_local.bytes[14] = subnet;
    link_local.bytes[15] = 1;
    Gid version_1 = ipv4_gid(10, 0, subnet, 1);
    version_1.type = IBV_GID_TYPE_ROCE_V1;
    Gid version_2 = ipv4_gid(10, 0, subnet, 1);
    link_local.interface = version_1.interface = version_2.interface = subnet;
    return {.name = name, .ports = {{.gids = {link_local, Gid{}, version_1, version_2}}}};
}

Device infiniband_device(const std::string& name, std::uint16_t lid) {
    return {.name = name,
            .ports = {{.link_layer = IBV_LINK_LAYER_INFINIBAND,
                       .lid = lid,
                       .gids = {infiniband_gid(0xfe80000000000000, 0x2c9000000000000ULL + lid)}}}};
}

void begin(Scenario scenario) {
    World& all = world();
    if (objects() != Objects{}) {
        static_cast<void>(
            std::fprintf(stderr, "fake verbs: a scenario begins while objects are left\n"));
        std::abort();
    }
    all = World{};
    all.random.seed(scenario.seed);
    for (const Device& device : scenario.devices) {
        auto adapter = std::make_unique<Adapter>();
        adapter->is = device;
        // EFA, which has no reliable connections, calls itself unspecified.
        adapter->node_type = device.has_rc ? IBV_NODE_CA : IBV_NODE_UNSPECIFIED;
        adapter->transport_type = device.has_rc ? IBV_TRANSPORT_IB : IBV_TRANSPORT_UNSPECIFIED;
        const auto index = all.adapters.size();
        device.name.copy(adapter->name, sizeof adapter->name - 1);
        ("uverbs" + std::to_string(index)).copy(adapter->dev_name, sizeof adapter->dev_name - 1);
        ("/fake/uverbs" + std::to_string(index))
            .copy(adapter->dev_path, sizeof adapter->dev_path - 1);
        ("/fake/infiniband/" + device.name)
            .copy(adapter->ibdev_path, sizeof adapter->ibdev_path - 1);
        all.adapters.push_back(std::move(adapter));
    }
    all.scenario = std::move(scenario);
}

void fail_work(const WorkFault& fault) { world().work_faults.push_back(fault); }

void disturb_immediate(const ImmediateFault& fault) { world().immediate_faults.push_back(fault); }

void fail_registration(std::uint64_t nth, int error) { world().registration_faults[nth] = error; }

const std::vector<Registration>& registrations() { return world().registrations; }

std::uint64_t immediates() { return world().immediates; }

std::uint64_t posted(int queue_pair) {
    for (const auto& adapter : world().adapters)
        for (const auto& each : adapter->queue_pairs)
            if (each->order == queue_pair) return each->next_request;
    return 0;
}

void revoke_remote_keys() {
    for (auto& adapter : world().adapters) adapter->by_remote_key.clear();
}

void lose_packets(bool all) { world().loses_packets = all; }

void raise(std::size_t device, ibv_event_type event, std::size_t element) {
    Adapter& adapter = *world().adapters.at(device);
    ibv_async_event raised{};
    raised.event_type = event;
    switch (event) {
        case IBV_EVENT_QP_FATAL: {
            QueuePair& queue_pair = *adapter.queue_pairs.at(element);
            raised.element.qp = &queue_pair;
            raise_event(*static_cast<Context*>(queue_pair.context), raised);
            stop(queue_pair);
            return;
        }
        case IBV_EVENT_CQ_ERR: kill_queue(*adapter.completion_queues.at(element)); return;
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_PORT_ACTIVE:
            adapter.is.ports.at(element - 1).state =
                event == IBV_EVENT_PORT_ERR ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
            raised.element.port_num = static_cast<int>(element);
            break;
        case IBV_EVENT_DEVICE_FATAL:
            for (auto& queue_pair : adapter.queue_pairs) stop(*queue_pair);
            break;
        default: raised.element.port_num = static_cast<int>(element);
    }
    for (auto& context : adapter.contexts) raise_event(*context, raised);
}

const Counters& counters(std::size_t device) { return world().adapters.at(device)->counters; }

std::uint64_t most_outstanding() { return world().most_outstanding; }

Objects objects() {
    Objects sum{.lists = world().lists};
    for (const auto& adapter : world().adapters) {
        sum.contexts += adapter->contexts.size();
        sum.domains += adapter->domains.size();
        sum.regions += adapter->regions.size();
        sum.channels += adapter->channels.size();
        sum.completion_queues += adapter->completion_queues.size();
        sum.queue_pairs += adapter->queue_pairs.size();
    }
    return sum;
}

const std::vector<std::string>& misuses() { return world().misuses; }

}  // namespace weightlift::fake
