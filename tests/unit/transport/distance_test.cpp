#include "distance.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/base/error.hpp"

namespace weightlift::transport {
namespace {

// Two packages of two NUMA nodes each. At node 0: a host bridge with a switch (GPU 03, NIC 04) and
// a root port (NIC 10), and a second host bridge (NIC 20). At node 1: NIC 40. At node 2: NIC 80.
constexpr const char* kMachine = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xf" nodeset="0xf" complete_nodeset="0xf" allowed_nodeset="0xf" gp_index="1">
  <object type="Package" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x3" complete_nodeset="0x3" gp_index="2">
   <object type="Group" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="3" kind="1001" subkind="0">
    <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
    <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0" bridge_pci="0000:[00-1f]">
     <object type="Bridge" gp_index="21" bridge_type="1-1" depth="1" bridge_pci="0000:[02-04]" pci_busid="0000:00:01.0" pci_type="0604 [8086:0001] [8086:0001] 00" pci_link_speed="0.0">
      <object type="PCIDev" gp_index="22" pci_busid="0000:03:00.0" pci_type="0302 [10de:2330] [10de:0001] 00" pci_link_speed="0.0"/>
      <object type="PCIDev" gp_index="23" pci_busid="0000:04:00.0" pci_type="0207 [15b3:1021] [15b3:0001] 00" pci_link_speed="0.0"/>
     </object>
     <object type="Bridge" gp_index="24" bridge_type="1-1" depth="1" bridge_pci="0000:[10-10]" pci_busid="0000:00:02.0" pci_type="0604 [8086:0001] [8086:0001] 00" pci_link_speed="0.0">
      <object type="PCIDev" gp_index="25" pci_busid="0000:10:00.0" pci_type="0207 [15b3:1021] [15b3:0001] 00" pci_link_speed="0.0"/>
     </object>
    </object>
    <object type="Bridge" gp_index="26" bridge_type="0-1" depth="0" bridge_pci="0000:[20-2f]">
     <object type="PCIDev" gp_index="27" pci_busid="0000:20:00.0" pci_type="0207 [15b3:1021] [15b3:0001] 00" pci_link_speed="0.0"/>
    </object>
   </object>
   <object type="Group" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="6" kind="1001" subkind="0">
    <object type="NUMANode" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="7"/>
    <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x2" complete_nodeset="0x2" gp_index="8"/>
    <object type="Bridge" gp_index="28" bridge_type="0-1" depth="0" bridge_pci="0000:[40-4f]">
     <object type="PCIDev" gp_index="29" pci_busid="0000:40:00.0" pci_type="0207 [15b3:1021] [15b3:0001] 00" pci_link_speed="0.0"/>
    </object>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0xc" complete_cpuset="0xc" nodeset="0xc" complete_nodeset="0xc" gp_index="9">
   <object type="Group" cpuset="0x4" complete_cpuset="0x4" nodeset="0x4" complete_nodeset="0x4" gp_index="10" kind="1001" subkind="0">
    <object type="NUMANode" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x4" complete_nodeset="0x4" gp_index="11"/>
    <object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x4" complete_nodeset="0x4" gp_index="12"/>
    <object type="Bridge" gp_index="30" bridge_type="0-1" depth="0" bridge_pci="0000:[80-8f]">
     <object type="PCIDev" gp_index="31" pci_busid="0000:80:00.0" pci_type="0207 [15b3:1021] [15b3:0001] 00" pci_link_speed="0.0"/>
    </object>
   </object>
   <object type="Group" cpuset="0x8" complete_cpuset="0x8" nodeset="0x8" complete_nodeset="0x8" gp_index="13" kind="1001" subkind="0">
    <object type="NUMANode" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x8" complete_nodeset="0x8" gp_index="14"/>
    <object type="PU" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x8" complete_nodeset="0x8" gp_index="15"/>
   </object>
  </object>
 </object>
</topology>
)";

Nic at(const std::string& pci, int numa_node = -1) {
    Nic nic;
    nic.name = "nic at " + pci;
    nic.pci = pci;
    nic.numa_node = numa_node;
    return nic;
}

/// hwloc reads the machine above instead of this one.
class NicDistances : public testing::Test {
protected:
    void SetUp() override {
        file_ = std::filesystem::path(testing::TempDir()) / "weightlift_machine.xml";
        std::ofstream(file_) << kMachine;
        setenv("HWLOC_XMLFILE", file_.c_str(), 1);
    }
    void TearDown() override {
        unsetenv("HWLOC_XMLFILE");
        std::filesystem::remove(file_);
    }

    const std::vector<Nic> nics_{at("0000:04:00.0"), at("0000:10:00.0"), at("0000:20:00.0"),
                                 at("0000:40:00.0"), at("0000:80:00.0"), at("")};

private:
    std::filesystem::path file_;
};

using Distances = std::vector<int>;

TEST_F(NicDistances, to_memory_are_by_node_and_package) {
    const unsigned first[] = {0}, third[] = {2}, last[] = {3}, all[] = {0, 1, 2, 3};
    EXPECT_EQ(distances_to_memory(nics_, first), (Distances{0, 0, 0, 1, 2, 0}));
    EXPECT_EQ(distances_to_memory(nics_, third), (Distances{2, 2, 2, 2, 0, 0}));
    EXPECT_EQ(distances_to_memory(nics_, last), (Distances{2, 2, 2, 2, 1, 0}));
    EXPECT_EQ(distances_to_memory(nics_, all), (Distances{0, 0, 0, 0, 0, 0}));
}

TEST_F(NicDistances, of_a_process_bound_nowhere_are_all_equal) {
    EXPECT_EQ(nic_distances(nics_), (Distances{0, 0, 0, 0, 0, 0}));
}

TEST_F(NicDistances, take_the_kernels_node_where_hwloc_does_not_see_the_device) {
    const unsigned first[] = {0};
    const std::vector<Nic> hidden{at("0001:04:00.0", 0), at("0001:05:00.0", 1),
                                  at("0001:06:00.0", 3), at("0001:07:00.0", -1)};
    EXPECT_EQ(distances_to_memory(hidden, first), (Distances{0, 1, 2, 0}));
}

TEST_F(NicDistances, to_a_gpu_are_by_switch_bridge_and_node) {
    EXPECT_EQ(nic_distances(nics_, "0000:03:00.0"), (Distances{0, 1, 2, 3, 3, 0}));
    EXPECT_EQ(nic_distances(std::vector{at("0001:04:00.0")}, "0000:03:00.0"), (Distances{3}));
}

TEST_F(NicDistances, refuse_a_gpu_that_is_not_there) {
    EXPECT_THROW(static_cast<void>(nic_distances(nics_, "0000:77:00.0")), ConfigError);
}

TEST(NicDistancesHere, of_devices_that_are_not_on_pci_are_zero) {
    EXPECT_EQ(nic_distances(std::vector{at("")}), (Distances{0}));
    EXPECT_EQ(nic_distances({}), Distances{});
}

}  // namespace
}  // namespace weightlift::transport
