#include "weightlift/mpi/communicator.hpp"

#include <algorithm>
#include <utility>

#include "poll.hpp"
#include "roll_call.hpp"

namespace weightlift::mpi {
namespace {

constexpr std::size_t kReduceBlock = std::size_t{1} << 20;  // elements

/// Both ends of a pending collective.
template <class T>
struct Ends {
    std::vector<T> in;
    std::vector<T> out;
};

}  // namespace

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

Communicator Communicator::world() {
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    return Communicator(comm);
}

void Communicator::release() noexcept {
    if (comm_ != MPI_COMM_NULL && !lost_) MPI_Comm_free(&comm_);
    comm_ = MPI_COMM_NULL;
}

Communicator::~Communicator() { release(); }

Communicator::Communicator(Communicator&& other) noexcept
    : comm_(std::exchange(other.comm_, MPI_COMM_NULL)),
      rank_(other.rank_),
      size_(other.size_),
      idle_(std::move(other.idle_)),
      label_(std::move(other.label_)),
      stop_(std::move(other.stop_)),
      told_(other.told_),
      lost_(other.lost_),
      heard_(other.heard_) {}

Communicator& Communicator::operator=(Communicator&& other) noexcept {
    if (this != &other) {
        release();
        comm_ = std::exchange(other.comm_, MPI_COMM_NULL);
        rank_ = other.rank_;
        size_ = other.size_;
        idle_ = std::move(other.idle_);
        label_ = std::move(other.label_);
        stop_ = std::move(other.stop_);
        told_ = other.told_;
        lost_ = other.lost_;
        heard_ = other.heard_;
    }
    return *this;
}

Communicator Communicator::create_group(std::span<const int> ranks, int tag) const {
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_group(comm_, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, narrow<int>(ranks.size(), "group size"), ranks.data(), &some),
          "MPI_Group_incl");
    check(MPI_Comm_create_group(comm_, some, tag, &comm), "MPI_Comm_create_group");
    check(MPI_Group_free(&some), "MPI_Group_free");
    check(MPI_Group_free(&all), "MPI_Group_free");
    if (comm == MPI_COMM_NULL)
        throw Error(ExitCode::Internal,
                    "create_group: " + label(rank_) + " is not in the group it creates");
    Communicator group(comm);
    group.idle_ = idle_;
    group.stop_ = stop_;
    if (label_)
        group.label_ = [parent = label_, of = std::vector<int>(ranks.begin(), ranks.end())](int r) {
            return parent(of.at(static_cast<std::size_t>(r)));
        };
    return group;
}

std::string Communicator::label(int rank) const {
    return label_ ? label_(rank) : "rank " + std::to_string(rank);
}

void Communicator::abort(ExitCode code) const {
    MPI_Abort(comm_, static_cast<int>(code));
    std::_Exit(static_cast<int>(code));
}

void Communicator::answer_roll_call() const {
    constexpr std::chrono::milliseconds kInterval(1);
    const auto now = Clock::now();
    if (now - heard_ < kInterval) return;
    heard_ = now;
    const std::function<std::string(int)> name = [this](int r) { return label(r); };
    const std::string verdict = RollCall{comm_, rank_, size_, name}.listen();
    if (!verdict.empty()) {
        lost_ = true;
        throw DeadlineError(verdict);
    }
}

std::optional<Error> Communicator::told_to_stop() const {
    std::optional<Error> why = stop_ ? stop_() : std::nullopt;
    if (why && !told_) told_ = Clock::now();
    return why;
}

void Communicator::listen() const {
    answer_roll_call();
    const auto now = Clock::now();
    constexpr std::chrono::milliseconds kInterval(1);
    if (now - listened_ < kInterval) return;
    listened_ = now;
    int is_alarm = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kAlarmTag, comm_, &is_alarm, &status), "MPI_Iprobe");
    if (is_alarm != 0) {
        check(
            MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, kAlarmTag, comm_, MPI_STATUS_IGNORE),
            "MPI_Recv of an alarm");
        throw AlarmError(ExitCode::Transport, label(status.MPI_SOURCE) + " has failed");
    }
    const std::optional<Error> stop = told_to_stop();
    // Launchers tell all ranks at once: the first speaks for the others, or each would tell each.
    const std::chrono::milliseconds turn(std::min(rank_, 500));
    if (!stop || now < *told_ + turn) return;
    raise_alarm();
    throw Error(*stop);
}

void Communicator::raise_alarm() const {
    for (int r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        MPI_Request request = MPI_REQUEST_NULL;
        check(MPI_Isend(nullptr, 0, MPI_BYTE, r, kAlarmTag, comm_, &request), "MPI_Isend");
        check(MPI_Request_free(&request), "MPI_Request_free");
    }
}

void Communicator::expire(const Deadline& deadline, const char* phase,
                          const std::string& event) const {
    lost_ = true;
    const std::function<std::string(int)> name = [this](int r) { return label(r); };
    throw DeadlineError(
        RollCall{comm_, rank_, size_, name}.expire(deadline.timeout(), phase, event));
}

void Communicator::wait(MPI_Request* request, const Deadline& deadline, const char* phase) const {
    poll(
        deadline, phase,
        [&] {
            int done = 0;
            check(MPI_Test(request, &done, MPI_STATUS_IGNORE), phase);
            return done != 0;
        },
        [] { return std::string(); });
}

template <class Buffer>
void Communicator::finish(MPI_Request request, Buffer& buffer, const Deadline& deadline,
                          const char* phase) const {
    try {
        wait(&request, deadline, phase);
    } catch (...) {
        lost_ = true;
        abandon(buffer);
        throw;
    }
}

void Communicator::barrier(const Deadline& deadline, const char* phase) const {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(comm_, &request), "MPI_Ibarrier");
    Bytestring nothing;
    finish(request, nothing, deadline, phase);
}

void Communicator::all_reduce(void* value, int count, MPI_Datatype type, MPI_Op op,
                              const Deadline& deadline, const char* phase) const {
    int element = 0;
    check(MPI_Type_size(type, &element), "MPI_Type_size");
    const std::size_t bytes = static_cast<std::size_t>(element) * static_cast<std::size_t>(count);
    auto* const raw = static_cast<std::byte*>(value);
    Ends<std::byte> ends{Bytestring(raw, raw + bytes), Bytestring(bytes)};
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(ends.in.data(), ends.out.data(), count, type, op, comm_, &request),
          "MPI_Iallreduce");
    finish(request, ends, deadline, phase);
    std::copy(ends.out.begin(), ends.out.end(), raw);
}

void Communicator::reduce_sum_to_root(std::span<std::uint64_t> values, const Deadline& deadline,
                                      const char* phase) const {
    for (std::size_t at = 0; at < values.size(); at += kReduceBlock) {
        const auto block = values.subspan(at, std::min(kReduceBlock, values.size() - at));
        Ends<std::uint64_t> ends{{block.begin(), block.end()}, {}};
        ends.out.resize(rank_ == 0 ? block.size() : 0);
        MPI_Request request = MPI_REQUEST_NULL;
        check(MPI_Ireduce(ends.in.data(), ends.out.data(), narrow<int>(block.size()), MPI_UINT64_T,
                          MPI_SUM, 0, comm_, &request),
              "MPI_Ireduce");
        finish(request, ends, deadline, phase);
        std::copy(ends.out.begin(), ends.out.end(), block.begin());
    }
}

void Communicator::gather_bytes(const void* value, std::size_t bytes, void* all,
                                const Deadline& deadline, const char* phase) const {
    const auto* const raw = static_cast<const std::byte*>(value);
    Ends<std::byte> ends{Bytestring(raw, raw + bytes), {}};
    ends.out.resize(rank_ == 0 ? bytes * static_cast<std::size_t>(size_) : 0);
    const int count = narrow<int>(bytes, "bytes of a gathered record");
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Igather(ends.in.data(), count, MPI_BYTE, ends.out.data(), count, MPI_BYTE, 0, comm_,
                      &request),
          "MPI_Igather");
    finish(request, ends, deadline, phase);
    std::copy(ends.out.begin(), ends.out.end(), static_cast<std::byte*>(all));
}

void Communicator::broadcast(Bytestring& value, const Deadline& deadline, const char* phase) const {
    std::vector<std::uint64_t> bytes{value.size()};
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(bytes.data(), 1, MPI_UINT64_T, 0, comm_, &request), "MPI_Ibcast");
    finish(request, bytes, deadline, phase);
    value.resize(bytes[0]);
    for_each_piece(value.size(), [&](Bytes at, int count) {
        check(MPI_Ibcast(value.data() + at, count, MPI_BYTE, 0, comm_, &request), "MPI_Ibcast");
        finish(request, value, deadline, phase);
    });
}

}  // namespace weightlift::mpi
