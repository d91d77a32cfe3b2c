#include "arrivals.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace weightlift::transport {
namespace {

constexpr Bytes kCacheLine = 64;

Descriptor make_file(Bytes bytes) {
    Descriptor file(::memfd_create("weightlift-control", MFD_CLOEXEC));
    if (file.get() < 0 || ::ftruncate(file.get(), narrow<off_t>(bytes, "bytes of a page")) != 0)
        throw TransportError(fmt::format("cannot make a control page: {}", std::strerror(errno)));
    return file;
}

}  // namespace

Bytes EpochLines::bytes(int sources) { return static_cast<Bytes>(sources) * kCacheLine; }

std::atomic<std::uint64_t>& EpochLines::operator[](int source) const {
    using Epoch = std::atomic<std::uint64_t>;
    static_assert(Epoch::is_always_lock_free && sizeof(Epoch) == sizeof(std::uint64_t));
    return *reinterpret_cast<Epoch*>(page_ + static_cast<Bytes>(source) * kCacheLine);
}

ControlPage::ControlPage(int sources)
    : bytes_(EpochLines::bytes(sources)),
      file_(make_file(bytes_)),
      mapping_(file_, bytes_, "mmap of the control page") {}

FileId ControlPage::id() const { return FileId::of(file_.get(), bytes_); }

void Arrivals::start(const std::vector<int>& sources, std::uint64_t epoch) {
    for (const int source : sources)
        if (epoch <= accepted_[static_cast<std::size_t>(source)])
            throw TransportError(
                fmt::format("{}: push of epoch {} after {} has notified it already", backend_,
                            epoch, label_(source)));
    epoch_ = epoch;
    waiting_.assign(sources.begin(), sources.end());
}

void Arrivals::look() {
    for (std::size_t i = 0; i < waiting_.size();) {
        const int source = waiting_[i];
        std::uint64_t& accepted = accepted_[static_cast<std::size_t>(source)];
        const std::uint64_t seen = lines_[source].load(std::memory_order_acquire);
        if (seen == epoch_) {
            accepted = seen;
            waiting_[i] = waiting_.back();
            waiting_.pop_back();
        } else if (seen != accepted) {
            throw TransportError(fmt::format("{}: {} has notified epoch {}, but {} is under way",
                                             backend_, label_(source), seen, epoch_));
        } else {
            ++i;
        }
    }
}

}  // namespace weightlift::transport
