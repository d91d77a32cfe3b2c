#include "roll_call.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <sched.h>

#include "weightlift/base/bytes.hpp"
#include "weightlift/mpi/communicator.hpp"

namespace weightlift::mpi {
namespace {

enum class Kind : char { Expired = 'e', Call = 'c', Here = 'h', Verdict = 'v' };

struct Message {
    int source;
    Kind kind;
    std::string text;
};

constexpr std::size_t kNamed = 8;  // keeps a verdict under every eager limit

std::chrono::nanoseconds grace(std::chrono::nanoseconds timeout) {
    return std::min<std::chrono::nanoseconds>(std::chrono::seconds(2), timeout);
}

/// The message may stay unsent for ever where the peer is dead, so its buffer is never freed.
MPI_Request post(MPI_Comm comm, int to, Kind kind, const std::string& text) {
    auto* buffer = new std::string(1, static_cast<char>(kind));
    *buffer += text;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Isend(buffer->data(), narrow<int>(buffer->size(), "roll call message"), MPI_CHAR, to,
                    kRollCallTag, comm, &request),
          "MPI_Isend (roll call)");
    return request;
}

std::optional<Message> receive(MPI_Comm comm) {
    int found = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status{};
    check(MPI_Improbe(MPI_ANY_SOURCE, kRollCallTag, comm, &found, &handle, &status),
          "MPI_Improbe (roll call)");
    if (found == 0) return std::nullopt;
    int count = 0;
    check(MPI_Get_count(&status, MPI_CHAR, &count), "MPI_Get_count");
    std::string text(static_cast<std::size_t>(count), '\0');
    check(MPI_Mrecv(text.data(), count, MPI_CHAR, &handle, MPI_STATUS_IGNORE), "MPI_Mrecv");
    return Message{status.MPI_SOURCE, static_cast<Kind>(text.at(0)), text.substr(1)};
}

std::string names(const std::vector<int>& ranks, const std::function<std::string(int)>& label) {
    std::string text;
    for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
        text += (i == 0 ? "" : ", ") + label(ranks[i]);
    if (ranks.size() > kNamed) text += " and " + std::to_string(ranks.size() - kNamed) + " more";
    return text;
}

std::string nobody(const std::string& who, const std::string& phase,
                   std::chrono::nanoseconds timeout) {
    return fmt::format("no answer from {} in {} within {:g} s", who, phase,
                       std::chrono::duration<double>(timeout).count());
}

/// Rank 0's part. `heard[r]`: r has spoken already.
std::string conduct(const RollCall& call, std::vector<bool> heard, std::chrono::nanoseconds timeout,
                    const std::string& phase, const std::string& event) {
    heard[0] = true;
    for (int r = 1; r < call.size; ++r)
        if (!heard[static_cast<std::size_t>(r)]) post(call.comm, r, Kind::Call, "");
    const Deadline deadline(grace(timeout));
    while (!deadline.passed() && std::count(heard.begin(), heard.end(), false) > 0) {
        if (const auto message = receive(call.comm))
            heard[static_cast<std::size_t>(message->source)] = true;
        else
            ::sched_yield();
    }

    std::vector<int> missing;
    for (int r = 1; r < call.size; ++r)
        if (!heard[static_cast<std::size_t>(r)]) missing.push_back(r);
    const std::string verdict =
        missing.empty() ? fmt::format("{} did not end within {:g} s though every rank answers{}{}",
                                      phase, std::chrono::duration<double>(timeout).count(),
                                      event.empty() ? "" : ": ", event)
                        : nobody(names(missing, call.label), phase, timeout);
    std::vector<MPI_Request> requests;
    for (int r = 1; r < call.size; ++r) {
        const MPI_Request request = post(call.comm, r, Kind::Verdict, verdict);
        if (heard[static_cast<std::size_t>(r)]) requests.push_back(request);
    }
    // The live must get it before this rank leaves and the launcher ends them.
    const Deadline leaving(grace(timeout));
    for (int done = 0; done == 0 && !leaving.passed(); ::sched_yield())
        check(
            MPI_Testall(narrow<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
            "MPI_Testall (roll call)");
    return verdict;
}

}  // namespace

std::string RollCall::listen() const {
    const auto message = receive(comm);
    if (!message) return {};
    switch (message->kind) {
        case Kind::Verdict: return message->text;
        case Kind::Call: post(comm, 0, Kind::Here, ""); return {};
        case Kind::Here: return {};
        case Kind::Expired: break;
    }
    // Text of Expired: timeout in nanoseconds, phase, event, each but the last with a newline.
    const std::string& text = message->text;
    const auto first = text.find('\n');
    const auto second = text.find('\n', first + 1);
    std::vector<bool> heard(static_cast<std::size_t>(size), false);
    heard[static_cast<std::size_t>(message->source)] = true;
    return conduct(*this, std::move(heard),
                   std::chrono::nanoseconds(std::stoll(text.substr(0, first))),
                   text.substr(first + 1, second - first - 1), text.substr(second + 1));
}

std::string RollCall::expire(std::chrono::nanoseconds timeout, const std::string& phase,
                             const std::string& event) const {
    if (rank == 0)
        return conduct(*this, std::vector<bool>(static_cast<std::size_t>(size), false), timeout,
                       phase, event);
    post(comm, 0, Kind::Expired, std::to_string(timeout.count()) + "\n" + phase + "\n" + event);
    const Deadline deadline(grace(timeout) + grace(timeout) / 2 + std::chrono::milliseconds(200));
    while (!deadline.passed()) {
        if (auto verdict = listen(); !verdict.empty()) return verdict;
        ::sched_yield();
    }
    return nobody(label(0), phase, timeout);
}

}  // namespace weightlift::mpi
