#include "fd_door.hpp"

#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace weightlift::transport {
namespace {

using std::chrono::milliseconds;

int file_with(const std::string& text) {
    const int fd = ::memfd_create("door-test", MFD_CLOEXEC);
    EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return fd;
}

std::string text_of(const Descriptor& fd) {
    std::string text(16, ' ');
    const auto n = ::pread(fd.get(), text.data(), text.size(), 0);
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return text;
}

TEST(FdDoor, gives_the_file_to_every_caller) {
    const Descriptor file(file_with("weights"));
    const FdDoor door;
    std::vector<FdCall> calls;
    for (int i = 0; i < 5; ++i) calls.emplace_back(door.name(), "test", "rank 1");
    door.serve(file.get(), calls.size(), mpi::Deadline(milliseconds(5000)));
    for (const FdCall& call : calls) {
        const Descriptor taken = call.take(mpi::Deadline(milliseconds(5000)));
        EXPECT_NE(taken.get(), file.get());
        EXPECT_EQ(text_of(taken), "weights");
    }
}

TEST(FdDoor, two_that_call_each_other_do_not_wait_in_a_circle) {
    const Descriptor a(file_with("a")), b(file_with("b"));
    const FdDoor door_a, door_b;
    std::string seen_by_a, seen_by_b;
    const auto meet = [](const FdDoor& own, const FdDoor& other, int fd, std::string& seen) {
        const mpi::Deadline deadline(milliseconds(5000));
        const FdCall call(other.name(), "test", "the other");
        own.serve(fd, 1, deadline);
        seen = text_of(call.take(deadline));
    };
    std::thread other([&] { meet(door_b, door_a, b.get(), seen_by_b); });
    meet(door_a, door_b, a.get(), seen_by_a);
    other.join();
    EXPECT_EQ(seen_by_a, "b");
    EXPECT_EQ(seen_by_b, "a");
}

TEST(FdDoor, waits_no_longer_than_the_deadline_on_either_side) {
    const Descriptor file(file_with("weights"));
    const FdDoor door;
    EXPECT_THROW(door.serve(file.get(), 1, mpi::Deadline(milliseconds(30))), DeadlineError);
    const FdCall call(door.name(), "test", "rank 1");
    EXPECT_THROW((void)call.take(mpi::Deadline(milliseconds(30))), DeadlineError);
}

TEST(FdDoor, names_the_peer_that_is_gone) {
    DoorName name{};
    { name = FdDoor().name(); }
    try {
        const FdCall call(name, "test", "rank 7");
        FAIL() << "not thrown";
    } catch (const TransportError& error) {
        EXPECT_NE(std::string(error.what()).find("rank 7"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace weightlift::transport
