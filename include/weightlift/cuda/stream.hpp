// Streams and events as values. Both belong to the device that was current at construction.
#pragma once

#include <utility>

// The types behind cudaStream_t and cudaEvent_t.
struct CUstream_st;
struct CUevent_st;

namespace weightlift::cuda {

class Event;

/// A stream that does not wait for the default stream.
class Stream {
public:
    Stream();
    ~Stream();
    Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
    Stream& operator=(Stream&& other) noexcept {
        std::swap(stream_, other.stream_);
        return *this;
    }
    [[nodiscard]] CUstream_st* get() const { return stream_; }
    void synchronize() const;
    /// What follows on this stream waits for the event.
    void wait(const Event& event) const;

private:
    CUstream_st* stream_ = nullptr;
};

enum class Timing : bool { Off, On };

class Event {
public:
    explicit Event(Timing timing = Timing::Off);
    ~Event();
    Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
    Event& operator=(Event&& other) noexcept {
        std::swap(event_, other.event_);
        return *this;
    }
    [[nodiscard]] CUevent_st* get() const { return event_; }
    void record(const Stream& stream) const;
    /// Whether all before it is done. Does not block; throws what that work failed with.
    [[nodiscard]] bool is_done() const;
    void synchronize() const;

private:
    CUevent_st* event_ = nullptr;
};

/// Milliseconds between two events with timing that are done.
[[nodiscard]] float elapsed_ms(const Event& from, const Event& to);

}  // namespace weightlift::cuda
