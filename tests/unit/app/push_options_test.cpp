#include "app/push_options.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "weightlift/transport/registry.hpp"

#include "unit/layout/refused.hpp"

namespace weightlift::app {
namespace {

using namespace std::chrono_literals;

PushArguments parse(const Arguments& arguments) {
    PushArguments out;
    EXPECT_EQ(parse_push(arguments, out), Parsed::Run);
    return out;
}

TEST(ParsePush, has_the_documented_defaults) {
    const PushArguments a = parse({});
    EXPECT_EQ(a.push.strategy, plan::Strategy::Direct);
    EXPECT_EQ(a.push.transport, "auto");
    EXPECT_EQ(a.push.order, session::Order::Rotated);
    EXPECT_EQ(a.push.verify, session::Verify::Fingerprint);
    EXPECT_EQ(a.push.window, 64 * MiB);
    EXPECT_EQ(a.push.minimum_slice, 256 * KiB);
    EXPECT_EQ(a.push.timeout, 60s);
    EXPECT_EQ(a.iterations, 20U);
    EXPECT_EQ(a.warmup, 2U);
    EXPECT_EQ(a.interval, 0s);
    EXPECT_EQ(a.duration, 0s);
    EXPECT_EQ(a.push.memory, memory::MemoryKind::Host);
    EXPECT_EQ(a.push.device_memory, memory::DeviceMemory::Malloc);
    EXPECT_EQ(a.push.gpu, std::nullopt);
    EXPECT_FALSE(a.as_json || a.is_quiet || a.has_reference);
}

TEST(ParsePush, reads_where_gpu_memory_comes_from) {
    const PushArguments a = parse({"--device-memory", "vmm", "--gpu", "3"});
    EXPECT_EQ(a.push.device_memory, memory::DeviceMemory::Vmm);
    EXPECT_EQ(a.push.gpu, 3);
    EXPECT_EQ(nlohmann::json::parse(options_json(a))["gpu"], 3);
    EXPECT_EQ(digests_of(a), digests_of(parse({"--device-memory", "vmm"})))
        << "ranks take GPUs of their own";
}

TEST(ParsePush, reads_how_nccl_moves_long_ranges) {
    EXPECT_EQ(parse({}).push.nccl.mode, transport::NcclMode::SendRecv);
    const auto names = transport::transport_names();
    if (std::find(names.begin(), names.end(), "nccl") == names.end())
        GTEST_SKIP() << "this build has no NCCL";
    const PushArguments a = parse({"--nccl-mode", "put", "--transport", "nccl"});
    EXPECT_EQ(a.push.nccl.mode, transport::NcclMode::Put);
    EXPECT_EQ(nlohmann::json::parse(options_json(a))["nccl_mode"], "put");
    EXPECT_NE(digests_of(a), digests_of(parse({"--transport", "nccl"})));
    PushArguments out;
    EXPECT_THROW(
        (void)parse_push({"--nccl-mode", "put", "--transport", "nccl", "--strategy", "relay"}, out),
        ConfigError);
}

TEST(ParsePush, takes_cuda_memory_where_it_is_built_in_but_no_reference_copy_of_it) {
    const auto kinds = memory::memory_kinds();
    if (std::find(kinds.begin(), kinds.end(), "cuda") == kinds.end())
        GTEST_SKIP() << "this build has no CUDA";
    EXPECT_EQ(parse({"--memory", "cuda"}).push.memory, memory::MemoryKind::Cuda);
    PushArguments out;
    EXPECT_THROW((void)parse_push({"--memory", "cuda", "--reference", "memcpy"}, out), ConfigError);
}

TEST(ParsePush, reads_every_flag) {
    const PushArguments a = parse({"--model",     "kimi-k2",     "--layers",
                                   "4",           "--mtp",       "--dtype",
                                   "fp8",         "--trainer",   "tp=8,ep=2",
                                   "--rollout",   "tp=16",       "--rollout",
                                   "tp=8",        "--roles",     "trainer:0-7,rollout:8-31",
                                   "--order",     "plan",        "--window",
                                   "1MiB",        "--min-slice", "4KiB",
                                   "--transport", "shm",         "--iterations",
                                   "7",           "--warmup",    "0",
                                   "--interval",  "10ms",        "--duration",
                                   "2min",        "--verify",    "full",
                                   "--timeout",   "5",           "--output",
                                   "out.h5",      "--cluster",   "h100-ib400",
                                   "--labels",    "night run",   "--reference",
                                   "memcpy",      "--json",      "--inject",
                                   "flip=3:17",   "--inject",    "drop=2",
                                   "--inject",    "delay=1:250", "--inject",
                                   "kill=2:5"});
    EXPECT_EQ(a.scene.model, "kimi-k2");
    EXPECT_EQ(a.scene.layers, 4U);
    EXPECT_TRUE(a.scene.with_mtp);
    EXPECT_EQ(a.scene.dtype, "fp8");
    EXPECT_EQ(a.scene.trainer, "tp=8,ep=2");
    EXPECT_EQ(a.scene.rollouts, (std::vector<std::string>{"tp=16", "tp=8"}));
    EXPECT_EQ(a.roles, "trainer:0-7,rollout:8-31");
    EXPECT_EQ(a.push.order, session::Order::Plan);
    EXPECT_EQ(a.push.window, 1 * MiB);
    EXPECT_EQ(a.push.minimum_slice, 4 * KiB);
    EXPECT_EQ(a.push.transport, "shm");
    EXPECT_EQ(a.iterations, 7U);
    EXPECT_EQ(a.warmup, 0U);
    EXPECT_EQ(a.interval, 10ms);
    EXPECT_EQ(a.duration, 120s);
    EXPECT_EQ(a.push.verify, session::Verify::Full);
    EXPECT_EQ(a.push.timeout, 5s);
    EXPECT_EQ(a.output, "out.h5");
    EXPECT_EQ(a.cluster, "h100-ib400");
    EXPECT_EQ(a.labels, "night run");
    EXPECT_TRUE(a.has_reference);
    EXPECT_TRUE(a.as_json);
    const auto& inject = a.push.inject;
    EXPECT_EQ(inject.flip, (std::pair<int, Bytes>{3, 17}));
    EXPECT_EQ(inject.drop, 2U);
    EXPECT_EQ(inject.delay, (std::pair<int, std::chrono::milliseconds>{1, 250ms}));
    EXPECT_EQ(inject.kill, (std::pair<int, std::uint64_t>{2, 5}));
}

TEST(ParsePush, does_not_care_about_the_order_of_flags_or_equals_signs) {
    const PushArguments a = parse({"--verify=none", "--trainer=tp=2,pp=2", "--model", "x"});
    EXPECT_EQ(a.push.verify, session::Verify::None);
    EXPECT_EQ(a.scene.trainer, "tp=2,pp=2");
    EXPECT_EQ(a.scene.model, "x");
}

struct Refused {
    Arguments arguments;
    const char* message;
};
std::ostream& operator<<(std::ostream& out, const Refused& row) {
    for (const auto& word : row.arguments) out << word << ' ';
    return out;
}

class ParsePushRefuses : public testing::TestWithParam<Refused> {};

TEST_P(ParsePushRefuses, naming_flag_value_and_rule) {
    PushArguments out;
    EXPECT_REFUSAL(parse_push(GetParam().arguments, out), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ParsePushRefuses,
    testing::Values(
        Refused{{"--iteration", "5"}, "unknown flag --iteration, did you mean '--iterations'?"},
        Refused{{"--iteration=5"}, "unknown flag --iteration, did you mean '--iterations'?"},
        Refused{{"-x"}, "unknown flag -x"}, Refused{{"extra"}, "unexpected argument 'extra'"},
        Refused{{"--iterations", "0"}, "--iterations 0: not a whole number from 1"},
        Refused{{"--iterations", "1.5"}, "--iterations 1.5: not a whole number"},
        Refused{{"--iterations", "-3"}, "--iterations"}, Refused{{"--iterations"}, "--iterations"},
        Refused{{"--warmup", "x"}, "--warmup x: not a whole number from 0"},
        Refused{{"--layers", "0"}, "--layers 0: not a whole number from 1"},
        Refused{{"--strategy", "teleport"},
                "--strategy teleport: not one of direct, replica, broadcast, relay"},
        Refused{{"--strategy", "auto"}, "--strategy auto: needs --cluster"},
        Refused{{"--order", "plane"},
                "--order plane: not one of plan, rotated, did you mean 'plan'?"},
        Refused{{"--verify", "finger"}, "--verify finger: not one of none, fingerprint, full"},
        Refused{{"--memory", "gpu"}, "--memory gpu: not one of host"},
        Refused{{"--device-memory", "pool"}, "--device-memory pool"},
        Refused{{"--nccl-mode", "get"}, "--nccl-mode get"},
        Refused{{"--nccl-mode", "put", "--transport", "mpi"}, "--nccl-mode put"},
        Refused{{"--gpu", "one"}, "--gpu one"},
        Refused{{"--transport", "carrier-pigeon"}, "carrier-pigeon"},
        Refused{{"--window", "0"}, "--window 0: must be at least one byte"},
        Refused{{"--window", "64 potatoes"}, "--window 64 potatoes: not a size"},
        Refused{{"--min-slice", "-1"}, "--min-slice"},
        Refused{{"--timeout", "1ms"}, "--timeout 1ms: must be at least 10ms"},
        Refused{{"--timeout", "soon"}, "--timeout soon: not a duration"},
        Refused{{"--interval", "1 fortnight"}, "--interval 1 fortnight: not a duration"},
        Refused{{"--duration", "0"}, "--duration 0: must be longer than nothing"},
        Refused{{"--reference", "a.json", "--reference", "b.json"},
                "--reference b.json: a.json is given already"},
        Refused{{"--max-time", "soon"}, "--max-time soon: not a duration like"},
        Refused{{"--min-line", "85%"}, "--min-line 85%: needs --cluster"},
        Refused{{"--min-line", "most", "--cluster", "h100-ib400"}, "--min-line most: not a perc"},
        Refused{{"--role", "spectator"}, "--role spectator: not trainer or rollout"},
        Refused{{"--role", "trainer", "--roles", "trainer:0,rollout:1"},
                "--role and --roles exclude each other"},
        Refused{{"--json", "--quiet"}, "--json and --quiet exclude each other"},
        Refused{{"--inject", "flip=3"}, "--inject flip=3: not flip=RANK:BYTE"},
        Refused{{"--inject", "explode=1:2"}, "--inject explode=1:2: not flip=RANK:BYTE"},
        Refused{{"--inject", "drop=0"}, "--inject drop 0: not a whole number from 1"},
        Refused{{"--inject", "drop"}, "--inject drop : not a whole number"},
        Refused{{"--inject", "kill=x:1"}, "--inject rank x: not a whole number"},
        Refused{{"--inject", "delay=0:18446744073709551615"}, "--inject value"},
        Refused{{"--config", "/no/such/job.toml"}, "--config: "}));

TEST(ParsePush, takes_a_job_file_and_lets_flags_win) {
    const std::string path = testing::TempDir() + "weightlift-job.toml";
    std::ofstream(path) << "model = \"qwen3-4b\"\ntrainer = \"tp=2,pp=2\"\n"
                           "rollout = [\"tp=4\", \"tp=2\"]\niterations = 9\nmtp = true\n";
    const PushArguments a = parse({"--iterations", "3", "--config", path});
    EXPECT_EQ(a.scene.model, "qwen3-4b");
    EXPECT_EQ(a.scene.trainer, "tp=2,pp=2");
    EXPECT_EQ(a.scene.rollouts, (std::vector<std::string>{"tp=4", "tp=2"}));
    EXPECT_EQ(a.iterations, 3U);
    EXPECT_TRUE(a.scene.with_mtp);
    std::ofstream(path) << "iteration = 9\n";
    PushArguments out;
    EXPECT_REFUSAL(parse_push({"--config", path}, out), "iteration");
    std::filesystem::remove(path);
}

TEST(OptionsJson, is_json_with_what_the_key_does_not_say) {
    const auto json = nlohmann::json::parse(options_json(parse({"--window", "1MiB"})));
    EXPECT_EQ(json["window_bytes"], MiB);
    EXPECT_EQ(json["order"], "rotated");
    EXPECT_EQ(json["timeout_ns"], 60'000'000'000);
}

/// The flags whose digests differ.
std::vector<std::string> differing(const Arguments& one, const Arguments& other) {
    std::vector<std::string> flags;
    const auto a = digests_of(parse(one)), b = digests_of(parse(other));
    EXPECT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].first, b[i].first);
        if (a[i].second != b[i].second) flags.push_back(a[i].first);
    }
    return flags;
}

TEST(DigestsOf, tell_ranks_apart_that_were_started_differently) {
    struct Row {
        Arguments other;
        const char* flag;
    };
    const Arguments base{"--model", "m", "--trainer", "tp=2", "--rollout", "tp=4"};
    for (const Row& row :
         {Row{{"--model", "n"}, "--model"}, Row{{"--trainer", "tp=4"}, "--trainer"},
          Row{{"--rollout", "tp=8"}, "--rollout"}, Row{{"--transport", "shm"}, "--transport"},
          Row{{"--verify", "full"}, "--verify"}, Row{{"--reference", "memcpy"}, "--reference"},
          Row{{"--reference", "r.json"}, "--reference"}, Row{{"--max-time", "1s"}, "--max-time"},
          Row{{"--inject", "drop=1"}, "--inject"},
          Row{{"--iterations", "3"}, "the rest of the command line"},
          Row{{"--order", "plan"}, "the rest of the command line"},
          Row{{"--layers", "3"}, "the rest of the command line"},
          Row{{"--duration", "3s"}, "the rest of the command line"},
          Row{{"--roles", "trainer:0,rollout:1"}, "the rest of the command line"}}) {
        Arguments other = row.other;
        for (std::size_t i = 0; i < base.size(); i += 2)
            if (std::find(other.begin(), other.end(), base[i]) == other.end())
                other.insert(other.end(), {base[i], base[i + 1]});
        const auto flags = differing(base, other);
        ASSERT_FALSE(flags.empty()) << row.flag;
        EXPECT_EQ(flags.front(), row.flag);  // the one that ranks are told
    }
    EXPECT_TRUE(differing(base, base).empty());
    // The colon form of mpirun gives each side its own role.
    EXPECT_TRUE(differing({"--role", "trainer"}, {"--role", "rollout"}).empty());
}

}  // namespace
}  // namespace weightlift::app
