#include "weightlift/cuda/stream.hpp"

#include <cuda_runtime_api.h>

#include "weightlift/cuda/error.hpp"

namespace weightlift::cuda {

Stream::Stream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}
Stream::~Stream() {
    if (stream_ != nullptr) warn(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}
void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
void Stream::wait(const Event& event) const {
    check(cudaStreamWaitEvent(stream_, event.get(), 0), "cudaStreamWaitEvent");
}

Event::Event(Timing timing) {
    check(cudaEventCreateWithFlags(
              &event_, timing == Timing::On ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
}
Event::~Event() {
    if (event_ != nullptr) warn(cudaEventDestroy(event_), "cudaEventDestroy");
}
void Event::record(const Stream& stream) const {
    check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}
bool Event::is_done() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
        // Not an error, but it would be found by the next look for one.
        (void)cudaGetLastError();
        return false;
    }
    check(status, "cudaEventQuery");
    return true;
}
void Event::synchronize() const { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

float elapsed_ms(const Event& from, const Event& to) {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, from.get(), to.get()), "cudaEventElapsedTime");
    return ms;
}

}  // namespace weightlift::cuda
