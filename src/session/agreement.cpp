#include "weightlift/session/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include <fmt/format.h>

namespace weightlift::session {

namespace {

// The work's own waits end this much before the agreement's, so that the rank that knows best what
// it waited for is the first to say so. Together they stay within the timeout.
std::chrono::nanoseconds grace(std::chrono::nanoseconds timeout) {
    return std::min<std::chrono::nanoseconds>(std::chrono::seconds(2), timeout / 5);
}

constexpr std::uint64_t kNobody = std::numeric_limits<std::uint64_t>::max();

}  // namespace

void Agreement::run(const char* phase,
                    const std::function<void(const mpi::Deadline&)>& work) const {
    const mpi::Deadline deadline(timeout_ - grace(timeout_));
    const mpi::Deadline agree_by(timeout_);
    std::string message;
    ExitCode code = ExitCode::Ok;
    try {
        work(deadline);
    } catch (const AgreedError&) {
        throw;
    } catch (const DeadlineError&) {
        // A lost peer cannot agree; all ranks that live throw this, with the same text.
        throw;
    } catch (const mpi::AlarmError&) {
        // The rank that raised it is the one that has something to say.
    } catch (const Error& error) {
        code = error.code();
        message = error.what();
    } catch (const std::bad_alloc&) {
        code = ExitCode::Usage;
        message = "out of memory";
    } catch (const std::exception& error) {
        code = ExitCode::Internal;
        message = error.what();
    }
    const auto mine = static_cast<std::uint64_t>(world_.rank());
    const std::uint64_t first =
        world_.min<std::uint64_t>(code == ExitCode::Ok ? kNobody : mine, agree_by, phase);
    if (first == kNobody) return;

    const std::string text = fmt::format("{} in {}: {}", label_(world_.rank()), phase, message);
    // Rank 0 prints; the failing rank's words travel to it, and its code to everybody.
    const std::uint64_t agreed_code = world_.max<std::uint64_t>(
        mine == first ? static_cast<std::uint64_t>(code) : 0, agree_by, phase);
    const auto bytes = std::as_bytes(std::span(text.data(), mine == first ? text.size() : 0));
    const auto all = world_.gather_strings(bytes, agree_by, phase);
    std::string agreed;
    if (world_.rank() == 0)
        agreed.assign(reinterpret_cast<const char*>(all[first].data()), all[first].size());
    throw AgreedError(static_cast<ExitCode>(agreed_code), agreed);
}

void Agreement::require_equal(std::uint64_t value, const char* what, const char* phase) const {
    const mpi::Deadline deadline(timeout_);
    const std::uint64_t low = world_.min(value, deadline, phase);
    const std::uint64_t high = world_.max(value, deadline, phase);
    if (low == high) return;
    // Name one that deviates from rank 0's value.
    mpi::Bytestring root(sizeof value);
    std::memcpy(root.data(), &value, sizeof value);
    world_.broadcast(root, deadline, phase);
    std::uint64_t expected = 0;
    std::memcpy(&expected, root.data(), sizeof expected);
    const std::uint64_t first = world_.min<std::uint64_t>(
        value == expected ? kNobody : static_cast<std::uint64_t>(world_.rank()), deadline, phase);
    throw AgreedError(ExitCode::Usage,
                      fmt::format("in {}: {} differs between {} and {}", phase, what, label_(0),
                                  label_(static_cast<int>(first))));
}

}  // namespace weightlift::session
