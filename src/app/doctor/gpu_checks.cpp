#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checks.hpp"

namespace weightlift::app::doctor {
namespace {

Finding check_paths(const Facts& f) {
    constexpr const char* kCheck = "GPU and NIC";
    std::vector<std::string> far, near, unknown;
    for (const Gpu& gpu : f.gpus) {
        int nearest = -1;
        std::string name;
        for (const Port& port : f.ports) {
            const auto& nic = f.nics[port.nic];
            if (!nic.ports[port.index].is_active || nic.pci.empty() || gpu.distances.empty())
                continue;
            if (nearest < 0 || gpu.distances[port.nic] < nearest) {
                nearest = gpu.distances[port.nic];
                name = nic.name;
            }
        }
        constexpr const char* kPath[] = {"one switch", "one host bridge", "one NUMA node",
                                         "different NUMA nodes"};
        if (nearest < 0)
            unknown.push_back(gpu.pci);
        else
            (nearest == 0 ? near : far)
                .push_back(fmt::format("{} and {} on {}", gpu.pci, name, kPath[nearest]));
    }
    if (!far.empty())
        return {
            kCheck, Verdict::Warn,
            fmt::format("through the root complex: {}", fmt::join(far, "; ")),
            "GPUDirect RDMA is slow there: take a NIC below the GPU's switch (--nic), or expect "
            "less than line rate"};
    if (!near.empty()) return {kCheck, Verdict::Ok, fmt::format("{}", fmt::join(near, "; ")), ""};
    return {kCheck, Verdict::Skip,
            fmt::format("no path known from {} to an active NIC", fmt::join(unknown, ", ")), ""};
}

Finding check_registration(const Facts& f) {
    constexpr const char* kCheck = "GPU memory keys";
    if (f.has_open_gpu_module)
        return {kCheck, Verdict::Ok,
                f.has_peermem ? "by dma-buf (open GPU kernel modules) or nvidia_peermem"
                              : "by dma-buf (open GPU kernel modules)",
                ""};
    if (f.has_peermem) return {kCheck, Verdict::Ok, "by nvidia_peermem", ""};
    return {kCheck, Verdict::Warn,
            "no nvidia_peermem, and the GPU's kernel modules are not the open ones, which export "
            "dma-bufs",
            "modprobe nvidia_peermem, or install the open GPU kernel modules; until then verbs "
            "moves host memory only"};
}

Finding check_iommu(const Facts& f) {
    std::vector<std::string> translated;
    for (const auto& [name, type] : f.iommu)
        if (type.starts_with("DMA")) translated.push_back(name);
    if (translated.empty()) return {"IOMMU", Verdict::Ok, "no translation for GPUs and NICs", ""};
    return {"IOMMU", Verdict::Warn, fmt::format("translates for {}", fmt::join(translated, ", ")),
            "GPU-NIC traffic then goes through the root complex, and has been seen corrupted: boot "
            "with iommu=pt, or intel_iommu=off / amd_iommu=off"};
}

Finding check_acs(const Facts& f) {
    std::vector<std::string> redirecting;
    bool is_unreadable = false;
    for (const auto& [bridge, redirect] : f.bridges) {
        if (redirect == Redirect::Yes) redirecting.push_back(bridge);
        is_unreadable = is_unreadable || redirect == Redirect::Unreadable;
    }
    if (!redirecting.empty())
        return {"ACS", Verdict::Warn,
                fmt::format("bridges send GPU-NIC traffic up to the root complex: {}",
                            fmt::join(redirecting, ", ")),
                "turn ACS off in the BIOS, or on these bridges (setpci), where no virtual machines "
                "need it"};
    if (is_unreadable)
        return {"ACS", Verdict::Skip, "PCI configuration is readable by root only",
                "sudo lspci -vvv | grep ACSCtl"};
    return {"ACS", Verdict::Ok, "no bridge above GPUs and NICs redirects", ""};
}

}  // namespace

std::vector<Finding> check_gpus(const Facts& f) {
    if (f.gpus.empty()) return {{"GPU", Verdict::Skip, "none (no /proc/driver/nvidia/gpus)", ""}};
    std::vector<std::string> models;
    for (const Gpu& gpu : f.gpus)
        if (std::find(models.begin(), models.end(), gpu.model) == models.end())
            models.push_back(gpu.model);
    std::vector<Finding> out{
        {"GPU", Verdict::Ok, fmt::format("{} ({})", f.gpus.size(), fmt::join(models, ", ")), ""}};
    if (f.nics.empty()) return out;
    out.push_back(check_paths(f));
    out.push_back(check_registration(f));
    out.push_back(check_iommu(f));
    out.push_back(check_acs(f));
    return out;
}

}  // namespace weightlift::app::doctor
