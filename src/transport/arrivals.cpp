#include "arrivals.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

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

Arrivals::Arrivals(EpochLines lines, std::vector<int> sources, std::vector<std::uint32_t> signals,
                   std::vector<std::uint64_t>& accepted, std::string backend,
                   std::function<std::string(int)> label)
    : lines_(lines),
      sources_(std::move(sources)),
      planned_(std::move(signals)),
      segments_(sources_.size()),
      accepted_(accepted),
      backend_(std::move(backend)),
      label_(std::move(label)) {
    planned_.resize(sources_.size());
    waiting_.reserve(sources_.size());
}

void Arrivals::start(std::uint64_t epoch) {
    WEIGHTLIFT_ENSURES(epoch <= ~std::uint32_t{0});
    for (const int source : sources_)
        if (epoch <= accepted_[static_cast<std::size_t>(source)])
            throw TransportError(
                fmt::format("{}: push of epoch {} after {} has notified it already", backend_,
                            epoch, label_(source)));
    epoch_ = epoch;
    std::fill(segments_.begin(), segments_.end(), 0U);
    waiting_.resize(sources_.size());
    std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
}

void Arrivals::look() {
    for (std::size_t i = 0; i < waiting_.size();) {
        const std::size_t index = waiting_[i];
        const int source = sources_[index];
        std::uint64_t& accepted = accepted_[static_cast<std::size_t>(source)];
        const Note seen = Note::of(lines_[source].load(std::memory_order_acquire));
        if (seen.epoch == epoch_) {
            if (seen.segments > planned_[index] ||
                (seen.is_done && seen.segments != planned_[index]))
                throw TransportError(fmt::format(
                    "{}: {} has placed {} segments in the push of epoch {}, but {} are planned",
                    backend_, label_(source), seen.segments, epoch_, planned_[index]));
            segments_[index] = seen.segments;
            if (seen.is_done) {
                accepted = epoch_;
                waiting_[i] = waiting_.back();
                waiting_.pop_back();
                continue;
            }
        } else if (seen.epoch != accepted) {
            throw TransportError(fmt::format("{}: {} has notified epoch {}, but {} is under way",
                                             backend_, label_(source), seen.epoch, epoch_));
        }
        ++i;
    }
}

std::vector<int> Arrivals::waiting() const {
    std::vector<int> ranks;
    for (const std::size_t index : waiting_) ranks.push_back(sources_[index]);
    return ranks;
}

}  // namespace weightlift::transport
