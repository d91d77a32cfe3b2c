#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weightlift/base/error.hpp"

#include "nic_tables.hpp"

namespace weightlift::transport {
namespace {

enum class Subnets { Same, Cross };

struct Chosen {
    const char* name;
    Nic nic;
    std::optional<int> requested;
    Subnets subnets;
    int index;
    bool uses_grh;
    std::string why;
};

Nic without(Nic nic, std::initializer_list<int> indices) {
    for (const int index : indices)
        std::erase_if(nic.ports[0].gids, [index](const auto& gid) { return gid.index == index; });
    return nic;
}

Nic with_grh_required(Nic nic) {
    nic.ports[0].needs_grh = true;
    return nic;
}

TEST(ChooseGid, takes_the_best_address_of_each_kind_of_device) {
    const Chosen rows[] = {
        {"mlx5 RoCE: v2, IPv4-mapped, neither first nor v1",
         mlx5_roce(),
         {},
         Subnets::Same,
         3,
         true,
         "RoCEv2, IPv4-mapped 10.77.0.1 on ens1"},
        {"mlx5 RoCE without IPv4: global IPv6",
         without(mlx5_roce(), {2, 3}),
         {},
         Subnets::Same,
         5,
         true,
         "RoCEv2, global IPv6 fd00:77::1 on ens1"},
        {"mlx5 RoCE with link-local only",
         without(mlx5_roce(), {2, 3, 4, 5}),
         {},
         Subnets::Same,
         1,
         true,
         "RoCEv2, link-local fe80::ba3f:d2ff:fe10:a on ens1"},
        {"mlx5 bond: the VLAN's address",
         mlx5_bond(),
         {},
         Subnets::Same,
         3,
         true,
         "RoCEv2, IPv4-mapped 192.168.4.9 on bond0.104"},
        {"irdma", irdma(), {}, Subnets::Same, 1, true, "RoCEv2, IPv4-mapped 10.1.2.3 on ens2"},
        {"bnxt_re: a table with holes",
         bnxt_re(),
         {},
         Subnets::Same,
         7,
         true,
         "RoCEv2, IPv4-mapped 10.9.0.7 on ens3"},
        {"Soft-RoCE on an IPv6-only host",
         rxe({entry(0, GidType::RoceV2, "fe80::5054:ff:fe12:1", "eth0", 64),
              entry(1, GidType::RoceV2, "2001:db8::5", "eth0", 64)}),
         {},
         Subnets::Same,
         1,
         true,
         "RoCEv2, global IPv6 2001:db8::5 on eth0"},
        {"lowest index of several of one kind, whatever their order",
         rxe({entry(4, GidType::RoceV2, "10.0.0.4", "eth0"),
              entry(2, GidType::RoceV2, "10.0.0.2", "eth0")}),
         {},
         Subnets::Same,
         2,
         true,
         "RoCEv2, IPv4-mapped 10.0.0.2 on eth0"},
        {"zero entries are skipped",
         rxe({entry(0, GidType::RoceV2, "::", "eth0"), entry(1, GidType::RoceV2, "0.0.0.0", "eth0"),
              entry(2, GidType::RoceV2, "fe80::1", "eth0")}),
         {},
         Subnets::Same,
         2,
         true,
         "RoCEv2, link-local fe80::1 on eth0"},
        {"entries of another network namespace are skipped",
         rxe({entry(0, GidType::RoceV2, "10.0.0.1", ""),
              entry(1, GidType::RoceV2, "fd00::1", "eth0", 64)}),
         {},
         Subnets::Same,
         1,
         true,
         "RoCEv2, global IPv6 fd00::1 on eth0"},
        {"loopback and multicast reach no other host",
         rxe({entry(0, GidType::RoceV2, "127.0.0.1", "lo"), entry(1, GidType::RoceV2, "::1", "lo"),
              entry(2, GidType::RoceV2, "ff02::1", "eth0"),
              entry(3, GidType::RoceV2, "10.0.0.3", "eth0")}),
         {},
         Subnets::Same,
         3,
         true,
         "RoCEv2, IPv4-mapped 10.0.0.3 on eth0"},
        {"InfiniBand by LID", mlx5_infiniband(), {}, Subnets::Same, 0, false, "InfiniBand, LID 17"},
        {"InfiniBand without a GID table",
         nic_with("mlx5_1", infiniband(4, {})),
         {},
         Subnets::Same,
         -1,
         false,
         "InfiniBand, LID 4"},
        {"InfiniBand to another subnet",
         mlx5_infiniband(),
         {},
         Subnets::Cross,
         0,
         true,
         "InfiniBand, LID 17, global header to another subnet: fe80::ba3f:d203:10:b"},
        {"a port that takes no packet without a global header",
         with_grh_required(mlx5_infiniband()),
         {},
         Subnets::Same,
         0,
         true,
         "InfiniBand, LID 17, global header required by the port: fe80::ba3f:d203:10:b"},
        {"LID 0 where the global header carries the address",
         with_grh_required(
             nic_with("opa0", infiniband(0, {entry(0, GidType::InfiniBand, "fe80::7", "")}))),
         {},
         Subnets::Same,
         0,
         true,
         "InfiniBand, LID 0, global header required by the port: fe80::7"},
        {"requested RoCE index", mlx5_roce(), 5, Subnets::Same, 5, true,
         "as asked: RoCEv2, global IPv6 fd00:77::1 on ens1"},
        {"requested RoCEv1, which nobody chooses by itself", mlx5_roce(), 2, Subnets::Same, 2, true,
         "as asked: RoCEv1, IPv4-mapped 10.77.0.1 on ens1"},
        {"requested InfiniBand index", mlx5_infiniband(), 0, Subnets::Same, 0, true,
         "as asked: InfiniBand, global header fe80::ba3f:d203:10:b"},
    };
    for (const Chosen& row : rows) {
        SCOPED_TRACE(row.name);
        const GidChoice choice =
            choose_gid(row.nic, row.nic.ports[0], row.requested, row.subnets == Subnets::Cross);
        EXPECT_EQ(choice.index, row.index);
        EXPECT_EQ(choice.uses_grh, row.uses_grh);
        EXPECT_EQ(choice.why, row.why);
        for (const GidEntry& gid : row.nic.ports[0].gids)
            if (gid.index == row.index) {
                EXPECT_EQ(choice.gid, gid.gid);
            }
    }
}

struct Refused {
    const char* name;
    Nic nic;
    std::optional<int> requested;
    Subnets subnets;
    std::vector<const char*> words;
};

Nic down(Nic nic) {
    nic.ports[0].is_active = false;
    nic.ports[0].state = "DOWN";
    return nic;
}
Nic iwarp() {
    Nic nic = irdma();
    nic.is_iwarp = true;
    return nic;
}

TEST(ChooseGid, refuses_naming_the_device_and_the_remedy) {
    const Refused rows[] = {
        {"EFA has no RC", efa(), {}, Subnets::Same, {"rdmap16s27", "RC", "--transport mpi"}},
        {"EFA with an index asked for", efa(), 0, Subnets::Same, {"rdmap16s27", "--transport mpi"}},
        {"iWARP", iwarp(), {}, Subnets::Same, {"rocep24s0f0", "iWARP", "roce_ena=1"}},
        {"port down", down(mlx5_roce()), {}, Subnets::Same, {"mlx5_0 port 1", "DOWN", "cable"}},
        {"no GID at all", rxe({}), {}, Subnets::Same, {"rxe0 port 1", "no GID", "IP address"}},
        {"zero entries only",
         rxe({entry(0, GidType::RoceV2, "::", "eth0")}),
         {},
         Subnets::Same,
         {"rxe0 port 1", "no GID"}},
        {"another namespace's only",
         rxe({entry(0, GidType::RoceV2, "10.0.0.1", "")}),
         {},
         Subnets::Same,
         {"rxe0 port 1", "1 GID,", "network namespace", "--network=host"}},
        {"RoCEv1 only",
         without(mlx5_roce(), {1, 3, 5}),
         {},
         Subnets::Same,
         {"mlx5_0 port 1", "3 RoCEv1 GIDs", "--gid-index"}},
        {"InfiniBand without a subnet manager",
         nic_with("mlx5_1", infiniband(0, {})),
         {},
         Subnets::Same,
         {"mlx5_1 port 1", "LID 0", "opensm"}},
        {"global header required, no GID",
         with_grh_required(nic_with("mlx5_1", infiniband(3, {}))),
         {},
         Subnets::Same,
         {"mlx5_1 port 1", "global header", "no GID"}},
        {"to another subnet, no GID",
         nic_with("mlx5_1", infiniband(3, {})),
         {},
         Subnets::Cross,
         {"mlx5_1 port 1", "another subnet", "no GID"}},
        {"an index that is empty",
         bnxt_re(),
         3,
         Subnets::Same,
         {"--gid-index 3", "bnxt_re0 port 1", "no GID at that index",
          "7 (RoCEv2, 10.9.0.7 on ens3)"}},
        {"an index of another namespace",
         rxe({entry(0, GidType::RoceV2, "10.0.0.1", ""),
              entry(1, GidType::RoceV2, "10.0.0.2", "eth0")}),
         0,
         Subnets::Same,
         {"--gid-index 0", "network namespace", "usable: 1 (RoCEv2, 10.0.0.2 on eth0)"}},
        {"an index that is zero",
         rxe({entry(0, GidType::RoceV2, "::", "eth0")}),
         0,
         Subnets::Same,
         {"--gid-index 0", "usable: none"}},
    };
    for (const Refused& row : rows) {
        SCOPED_TRACE(row.name);
        try {
            static_cast<void>(choose_gid(row.nic, row.nic.ports[0], row.requested,
                                         row.subnets == Subnets::Cross));
            ADD_FAILURE() << "not refused";
        } catch (const ConfigError& error) {
            for (const char* word : row.words)
                EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
                    << word << " is not in: " << error.what();
        }
    }
}

TEST(ChooseGid, repeats_why_a_device_could_not_be_read) {
    Nic nic;
    nic.name = "mlx5_9";
    nic.problem = "ibv_open_device: Permission denied";
    try {
        static_cast<void>(choose_gid(nic, NicPort{}));
        ADD_FAILURE() << "not refused";
    } catch (const ConfigError& error) {
        EXPECT_STREQ(error.what(), "mlx5_9: ibv_open_device: Permission denied");
    }
}

TEST(Gid, is_written_as_the_address_it_carries) {
    EXPECT_EQ(to_string(gid_of("10.77.0.1")), "10.77.0.1");
    EXPECT_EQ(to_string(gid_of("fe80::1")), "fe80::1");
    EXPECT_EQ(to_string(Gid{}), "::");
}

}  // namespace
}  // namespace weightlift::transport
