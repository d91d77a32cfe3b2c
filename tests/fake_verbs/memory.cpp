// Protection domains and memory regions.
#include <cerrno>

#include <sys/mman.h>
#include <unistd.h>

#include "world.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace weightlift::fake {

std::byte* reach(Adapter& adapter, const ibv_pd* domain, std::uint64_t address, std::uint64_t bytes,
                 std::uint32_t key, unsigned access, bool is_remote, Region** region) {
    const auto& keys = is_remote ? adapter.by_remote_key : adapter.by_local_key;
    const auto found = keys.find(key);
    if (found == keys.end()) return nullptr;
    Region& there = *found->second;
    const bool is_inside = address >= there.iova && bytes <= there.length &&
                           address - there.iova <= there.length - bytes;
    if (there.pd != domain || (there.access & access) != access || !is_inside) return nullptr;
    if (region != nullptr) *region = &there;
    return there.base + (address - there.iova);
}

namespace {

std::uint32_t next_key() { return world().next_key++ * 0x9e3779b1U; }  // odd: keys differ

/// 0, or why this can't be registered.
int refusal(const ibv_pd* domain, bool is_dma_buf, std::uint64_t iova, std::size_t length,
            unsigned access) {
    const Adapter& adapter = adapter_of(domain->context);
    const auto fault = world().registration_faults.find(world().registrations.size());
    world().registrations.push_back({adapter.is.name, is_dma_buf, iova, length});
    if (fault != world().registration_faults.end()) return fault->second;
    constexpr unsigned known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_HUGETLB |
                               IBV_ACCESS_RELAXED_ORDERING;
    if ((access & ~known) != 0) return EINVAL;
    if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
        return EINVAL;
    if (length == 0 || length > adapter.is.max_mr_size) return EINVAL;
    if (adapter.regions.size() >= static_cast<std::size_t>(adapter.is.max_mr)) return ENOMEM;
    return 0;
}

bool is_mapped(void* address, std::size_t length) {
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto before = reinterpret_cast<std::uintptr_t>(address) % page;
    std::vector<unsigned char> residence((before + length + page - 1) / page);
    return ::mincore(static_cast<char*>(address) - before, before + length, residence.data()) == 0;
}

Region* add_region(ibv_pd* domain, std::byte* base, std::size_t length, std::uint64_t iova,
                   unsigned access) {
    Adapter& adapter = adapter_of(domain->context);
    auto region = std::make_unique<Region>();
    region->context = domain->context;
    region->pd = domain;
    region->addr = base;
    region->length = length;
    region->lkey = next_key();
    region->rkey = next_key();
    region->iova = iova;
    region->base = base;
    region->access = access;
    adapter.by_local_key[region->lkey] = region.get();
    adapter.by_remote_key[region->rkey] = region.get();
    ++static_cast<Domain*>(domain)->users;
    adapter.regions.push_back(std::move(region));
    return adapter.regions.back().get();
}

}  // namespace
}  // namespace weightlift::fake

using namespace weightlift::fake;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
    auto domain = std::make_unique<Domain>();
    domain->context = context;
    auto& domains = adapter_of(context).domains;
    domains.push_back(std::move(domain));
    return domains.back().get();
}

int ibv_dealloc_pd(ibv_pd* domain) {
    if (static_cast<Domain*>(domain)->users != 0) return EBUSY;
    release(adapter_of(domain->context).domains, domain);
    return 0;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t length, std::uint64_t iova,
                         unsigned access) {
    int error = refusal(domain, false, iova, length, access);
    if (error == 0 && !is_mapped(address, length)) error = EFAULT;
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return add_region(domain, static_cast<std::byte*>(address), length, iova, access);
}

ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t length, int access) {
    return ibv_reg_mr_iova2(domain, address, length, reinterpret_cast<std::uintptr_t>(address),
                            static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
    return ibv_reg_mr_iova2(domain, address, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, std::uint64_t offset, std::size_t length,
                          std::uint64_t iova, int fd, int access) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    int error = refusal(domain, true, iova, length, static_cast<unsigned>(access));
    if (!adapter_of(domain->context).is.has_dma_buf) error = EOPNOTSUPP;
    if (error == 0 && offset % page != iova % page) error = EINVAL;
    void* mapping = MAP_FAILED;
    const std::uint64_t begin = offset / page * page;
    if (error == 0) {
        mapping = ::mmap(nullptr, length + offset - begin, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                         static_cast<off_t>(begin));
        if (mapping == MAP_FAILED) error = errno;
    }
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    Region* region = add_region(domain, static_cast<std::byte*>(mapping) + (offset - begin), length,
                                iova, static_cast<unsigned>(access));
    region->addr = nullptr;
    region->mapping = mapping;
    region->mapping_bytes = length + offset - begin;
    return region;
}

int ibv_dereg_mr(ibv_mr* mr) {
    auto& adapter = adapter_of(mr->context);
    auto& region = *static_cast<Region*>(mr);
    place_into(adapter, &region);  // a device waits for what is on its way
    adapter.by_local_key.erase(region.lkey);
    adapter.by_remote_key.erase(region.rkey);
    --static_cast<Domain*>(region.pd)->users;
    if (region.mapping != nullptr) ::munmap(region.mapping, region.mapping_bytes);
    release(adapter.regions, mr);
    return 0;
}

}  // extern "C"
