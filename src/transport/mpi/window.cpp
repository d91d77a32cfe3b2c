#include "window.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include <fmt/format.h>

namespace weightlift::transport::mpi_rma {
namespace {

constexpr int kGroupTag = 31000;

using weightlift::mpi::check;
using weightlift::mpi::Deadline;

/// What the watchdog says when one of these collectives hangs.
std::function<std::string()> stuck(const Context& context, const char* what) {
    return [&context, what] {
        return fmt::format("{}: a peer did not take part in {} within {:g} s",
                           context.label(context.world->rank()), what,
                           std::chrono::duration<double>(context.timeout).count());
    };
}

MPI_Win create(MPI_Comm comm, std::byte* data, Bytes bytes) {
    MPI_Info info = MPI_INFO_NULL;
    check(MPI_Info_create(&info), "MPI_Info_create");
    check(MPI_Info_set(info, "same_disp_unit", "true"), "MPI_Info_set");
    check(MPI_Info_set(info, "accumulate_ordering", "none"), "MPI_Info_set");
    MPI_Win win = MPI_WIN_NULL;
    const int rc =
        MPI_Win_create(data, narrow<MPI_Aint>(bytes, "bytes of a window"), 1, info, comm, &win);
    if (rc != MPI_SUCCESS)
        throw TransportError(
            "mpi: MPI_Win_create failed: this MPI has no one-sided component for the networks in "
            "use (with Open MPI 4 try --mca osc pt2pt)");
    check(MPI_Info_free(&info), "MPI_Info_free");
    check(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
    return win;
}

}  // namespace

Windows::Windows(const Context& context, const LinkTable& links, const memory::Arena& arena)
    : context_(context), exceptions_(std::uncaught_exceptions()) {
    const auto guard =
        context.watchdog->guard(Deadline(context.timeout), stuck(context, "opening windows"));
    // Only those who are written to expose memory.
    const bool exposed = !links.sources.empty();
    for (const std::vector<int>& ranks : links.engine_groups) {
        auto comm = context.world->create_group(ranks, kGroupTag);
        const MPI_Win win =
            create(comm.get(), exposed ? arena.data() : nullptr, exposed ? arena.bytes() : 0);
        windows_.push_back({ranks, std::move(comm), win});
        check(MPI_Win_lock_all(MPI_MODE_NOCHECK, win), "MPI_Win_lock_all");
    }
}

Windows::~Windows() {
    if (abandoned_ || std::uncaught_exceptions() > exceptions_) {
        [[maybe_unused]] const auto* kept =
            new (std::nothrow) std::vector<Window>(std::move(windows_));
        return;
    }
    const auto guard =
        context_.watchdog->guard(Deadline(context_.timeout), stuck(context_, "closing windows"));
    for (Window& window : windows_) {
        MPI_Win_unlock_all(window.win);
        MPI_Win_free(&window.win);
    }
}

Place Windows::find(int world_rank) const {
    for (std::size_t w = 0; w < windows_.size(); ++w) {
        const auto& ranks = windows_[w].ranks;
        const auto found = std::lower_bound(ranks.begin(), ranks.end(), world_rank);
        if (found != ranks.end() && *found == world_rank)
            return {w, static_cast<int>(found - ranks.begin())};
    }
    throw TransportError(fmt::format("mpi: {} has no window in common with {}",
                                     context_.label(context_.world->rank()),
                                     context_.label(world_rank)));
}

void Windows::sync() const {
    for (const Window& window : windows_) check(MPI_Win_sync(window.win), "MPI_Win_sync");
}

}  // namespace weightlift::transport::mpi_rma
