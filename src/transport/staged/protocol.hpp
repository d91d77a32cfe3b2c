// What the two ends of a pair tell each other by messages, where they share no memory.
#pragma once

#include <cstdint>
#include <string>

#include <mpi.h>

#include "weightlift/transport/transport.hpp"

namespace weightlift::transport::staged {

inline constexpr int kDataTag = 31031, kConfirmTag = 31032;

/// In front of every payload.
struct Header {
    std::uint64_t epoch = 0, index = 0;
    std::uint64_t unused[6] = {};
};
static_assert(sizeof(Header) == 64);

/// By which a destination confirms messages and the segments that they end.
struct Answer {
    std::uint64_t epoch = 0, messages = 0, segments = 0;
    friend bool operator==(const Answer&, const Answer&) = default;
};
inline constexpr std::uint64_t kRefused = 0;  // epochs begin at 1

[[noreturn]] void fail(const std::string& what);

/// Of a push, with errors that name it and its peer.
class Requests {
public:
    explicit Requests(const Context& context) : context_(context) {}
    [[nodiscard]] bool test(MPI_Request& request, const char* call, int rank, std::uint64_t epoch,
                            MPI_Status* status = MPI_STATUS_IGNORE) const;
    void send(const void* from, Bytes bytes, int rank, int tag, MPI_Request& request) const;
    void receive(void* to, Bytes bytes, int rank, int tag, MPI_Request& request) const;

private:
    const Context& context_;
};

enum class Side : bool { Send, Receive };
/// Of a push that is given up, without waiting. Whether MPI may still read or write its memory.
bool let_go(MPI_Request& request, Side side);

}  // namespace weightlift::transport::staged
