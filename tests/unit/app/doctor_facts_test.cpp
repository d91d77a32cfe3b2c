#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "app/doctor/facts.hpp"
#include "app/doctor/pci.hpp"

namespace weightlift::app::doctor {
namespace {

namespace fs = std::filesystem;

/// A /proc and /sys of our own.
class DoctorFacts : public testing::Test {
protected:
    void SetUp() override {
        root_ = fs::path(testing::TempDir()) / "weightlift_doctor";
        fs::remove_all(root_);
        fs::create_directories(root_);
    }
    void TearDown() override { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& text) const {
        const fs::path file = root_ / path;
        fs::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << text;
    }
    [[nodiscard]] Facts gather(std::vector<transport::Nic> nics = {},
                               const Asked& asked = {}) const {
        return gather_facts(asked, std::move(nics), root_.string());
    }
    fs::path root_;
};

transport::Nic nic(const std::string& name) {
    transport::NicPort port;
    port.link = transport::LinkLayer::Ethernet;
    port.gids.push_back({3, {0xfd}, transport::GidType::RoceV2, "ens1", 64});
    transport::Nic out;
    out.name = name;
    out.ports = {port, port};
    out.ports[1].number = 2;
    return out;
}

TEST_F(DoctorFacts, know_the_limits_of_the_process) {
    write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max open files            1024                 524288               files     \n"
          "Max locked memory         65536                unlimited            bytes     \n");
    write("proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
    write("proc/sys/vm/max_map_count", "65530\n");
    write("proc/sys/kernel/hostname", "n041\n");
    const Facts facts = gather();
    EXPECT_EQ(facts.open_files, 1024U);
    EXPECT_EQ(facts.locked_memory, 65536U);
    EXPECT_TRUE(facts.can_lock_all);
    EXPECT_EQ(facts.max_map_count, 65530U);
    EXPECT_EQ(facts.host, "n041");
}

TEST_F(DoctorFacts, tell_unlimited_from_unknown) {
    EXPECT_EQ(gather().locked_memory, std::nullopt);
    write("proc/self/limits", "Max locked memory         unlimited            unlimited   bytes\n");
    write("proc/self/status", "CapEff:\t000001ffffffbfff\n");
    const Facts facts = gather();
    EXPECT_EQ(facts.locked_memory, kUnlimited);
    EXPECT_FALSE(facts.can_lock_all);
}

TEST_F(DoctorFacts, know_how_proc_is_mounted) {
    write("proc/mounts", "proc /proc proc rw,hidepid=0 0 0\n");
    EXPECT_EQ(gather().hidepid, "");
    write("proc/mounts",
          "tmpfs /tmp tmpfs rw 0 0\nproc /proc proc rw,gid=5,hidepid=2,nosuid 0 0\n");
    EXPECT_EQ(gather().hidepid, "2");
}

TEST_F(DoctorFacts, say_why_there_is_no_nic) {
    EXPECT_FALSE(gather().why_no_nics.empty());
    EXPECT_TRUE(gather({nic("mlx5_0")}).why_no_nics.empty());
}

TEST_F(DoctorFacts, know_errors_and_qos_of_each_port) {
    const std::string second = "sys/class/infiniband/mlx5_0/ports/2/";
    write(second + "counters/symbol_error", "0\n");
    write(second + "counters/link_downed", "2\n");
    write(second + "hw_counters/out_of_sequence", "7\n");
    write("sys/class/infiniband/mlx5_0/tc/2/traffic_class", "Global tclass=106\n");
    for (const char priority : {'0', '1', '2', '3', '4', '5', '6', '7'})
        write(std::string("sys/class/net/ens1/ecn/roce_np/enable/") + priority,
              priority == '3' ? "1\n" : "0\n");
    write("sys/class/net/ens1/qos/trust", "dscp\n");
    const Facts facts = gather({nic("mlx5_0")});
    ASSERT_EQ(facts.ports.size(), 2U);
    EXPECT_FALSE(facts.ports[0].has_counters);
    EXPECT_EQ(facts.ports[1].name, "mlx5_0:2");
    EXPECT_TRUE(facts.ports[1].has_counters);
    using Errors = std::vector<std::pair<std::string, std::uint64_t>>;
    EXPECT_EQ(facts.ports[1].errors, (Errors{{"link_downed", 2}, {"out_of_sequence", 7}}));
    using Settings = std::vector<std::pair<std::string, std::string>>;
    EXPECT_EQ(facts.ports[1].qos, (Settings{{"traffic class", "Global tclass=106"},
                                            {"trust", "dscp"},
                                            {"ECN notified on priorities", "3"}}));
}

TEST_F(DoctorFacts, look_at_the_ports_asked_for) {
    Asked asked;
    asked.verbs.nics = {"mlx5_0:2", "mlx5_1", "mlx5_7"};
    const Facts facts = gather({nic("mlx5_0"), nic("mlx5_1")}, asked);
    std::vector<std::string> names;
    for (const Port& port : facts.ports) names.push_back(port.name);
    EXPECT_EQ(names, (std::vector<std::string>{"mlx5_0:2", "mlx5_1:1", "mlx5_1:2"}));
    EXPECT_EQ(facts.unknown_nics, (std::vector<std::string>{"mlx5_7"}));
}

TEST_F(DoctorFacts, name_device_files_that_cannot_be_opened) {
    write("dev/infiniband/uverbs0", "");
    write("dev/infiniband/rdma_cm", "");
    fs::create_directories(root_ / "dev/infiniband/uverbs1");
    const Facts facts = gather();
    ASSERT_EQ(facts.device_files.size(), 2U);
    EXPECT_EQ(facts.device_files[0].path, "/dev/infiniband/uverbs0");
    EXPECT_EQ(facts.device_files[0].error, "");
    EXPECT_EQ(facts.device_files[1].error, "Is a directory");
}

TEST_F(DoctorFacts, know_gpus_and_how_their_memory_is_registered) {
    EXPECT_TRUE(gather().gpus.empty());
    write("proc/driver/nvidia/gpus/0000:03:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
    write("proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64\n");
    fs::create_directories(root_ / "sys/module/nvidia_peermem");
    const Facts facts = gather();
    ASSERT_EQ(facts.gpus.size(), 1U);
    EXPECT_EQ(facts.gpus[0].pci, "0000:03:00.0");
    EXPECT_EQ(facts.gpus[0].model, "NVIDIA H200");
    EXPECT_TRUE(facts.has_open_gpu_module);
    EXPECT_TRUE(facts.has_peermem);
}

std::string config_bytes(std::size_t size, const std::vector<std::pair<std::size_t, int>>& bytes) {
    std::string config(size, '\0');
    for (const auto& [at, byte] : bytes) config[at] = static_cast<char>(byte);
    return config;
}

TEST_F(DoctorFacts, follow_the_way_up_from_a_device) {
    const std::string bus = "sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0/";
    // ACS (id 0x000d) at 0x148, request redirect on, in the second of the list.
    write("sys/devices/pci0000:00/0000:00:01.0/config",
          config_bytes(
              4096, {{0x100, 0x01}, {0x102, 0x81}, {0x103, 0x14}, {0x148, 0x0d}, {0x14e, 0x04}}));
    write("sys/devices/pci0000:00/0000:00:01.0/0000:02:00.0/config", config_bytes(64, {}));
    write(bus + "0000:03:00.0/config",
          config_bytes(256, {{0x34, 0x60}, {0x60, 0x10}, {0x68, 0x10}}));
    write(bus + "0000:03:00.0/iommu_group/type", "DMA-FQ\n");
    fs::create_directories(root_ / "sys/bus/pci/devices");
    fs::create_directory_symlink(root_ / bus / "0000:03:00.0",
                                 root_ / "sys/bus/pci/devices/0000:03:00.0");
    for (const char* bridge : {"0000:00:01.0", "0000:00:01.0/0000:02:00.0"})
        fs::create_directory_symlink(root_ / "sys/devices/pci0000:00" / bridge,
                                     root_ / "sys/bus/pci/devices" / fs::path(bridge).filename());
    transport::Nic device = nic("mlx5_0");
    device.pci = "0000:03:00.0";
    const Facts facts = gather({device});
    using Bridges = std::vector<std::pair<std::string, Redirect>>;
    EXPECT_EQ(facts.bridges,
              (Bridges{{"0000:00:01.0", Redirect::Yes}, {"0000:02:00.0", Redirect::Unreadable}}));
    ASSERT_EQ(facts.iommu.size(), 1U);
    EXPECT_EQ(facts.iommu[0].second, "DMA-FQ");
    ASSERT_EQ(facts.relaxed_ordering.size(), 1U);
    EXPECT_EQ(facts.relaxed_ordering[0].second, true);
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

TEST(DoctorPci, reads_no_further_than_it_may) {
    EXPECT_EQ(relaxed_ordering(bytes_of(config_bytes(64, {{0x34, 0x60}}))), std::nullopt);
    EXPECT_EQ(relaxed_ordering({}), std::nullopt);
    // No PCI Express capability; a list that bites its tail; one at the very end.
    EXPECT_EQ(relaxed_ordering(bytes_of(config_bytes(256, {}))), std::nullopt);
    EXPECT_EQ(relaxed_ordering(bytes_of(config_bytes(256, {{0x34, 0x60}, {0x61, 0x60}}))),
              std::nullopt);
    EXPECT_EQ(relaxed_ordering(bytes_of(config_bytes(256, {{0x34, 0xfc}, {0xfc, 0x10}}))),
              std::nullopt);
    EXPECT_EQ(relaxed_ordering(bytes_of(config_bytes(256, {{0x34, 0x60}, {0x60, 0x10}}))), false);

    EXPECT_EQ(acs_redirects(bytes_of(config_bytes(256, {}))), Redirect::Unreadable);
    EXPECT_EQ(acs_redirects(bytes_of(config_bytes(4096, {}))), Redirect::No);
    EXPECT_EQ(acs_redirects(bytes_of(config_bytes(4096, {{0x100, 1}, {0x103, 0x10}}))),
              Redirect::No);
    EXPECT_EQ(acs_redirects(bytes_of(config_bytes(4096, {{0x100, 0x0d}, {0x106, 0x13}}))),
              Redirect::No);
    EXPECT_EQ(acs_redirects(bytes_of(config_bytes(4096, {{0x100, 0x0d}, {0x106, 0x08}}))),
              Redirect::Yes);
    EXPECT_EQ(
        acs_redirects(bytes_of(config_bytes(4096, {{0x100, 1}, {0x102, 0xc0}, {0x103, 0xff}}))),
        Redirect::No);
}

TEST(DoctorOutput, is_tried_by_writing) {
    const fs::path folder = fs::path(testing::TempDir()) / "weightlift_doctor_output";
    fs::create_directories(folder);
    const std::string file = folder / "a.h5";
    EXPECT_EQ(gather_output(file).error, "");
    EXPECT_EQ(gather_output(file).folder, folder);
    EXPECT_GT(gather_output(file).free, 0U);
    EXPECT_TRUE(fs::is_empty(folder)) << "something is left behind";
    EXPECT_FALSE(gather_output(file).has_file);
    std::ofstream(file) << "x";
    EXPECT_TRUE(gather_output(file).has_file);
    EXPECT_EQ(gather_output(folder / "missing/a.h5").error, "No such file or directory");
    fs::remove_all(folder);
}

}  // namespace
}  // namespace weightlift::app::doctor
