#include "weightlift/transport/nics.hpp"

namespace weightlift::transport {
namespace {

double lanes(unsigned width) {
    switch (width) {
        case 1: return 1;
        case 2: return 4;
        case 4: return 8;
        case 8: return 12;
        case 16: return 2;
        default: return 0;
    }
}

/// Data of one lane, Gbit/s, without line coding. Up to QDR InfiniBand signals 10 bits for 8;
/// Ethernet ports borrow these codes for their data rate.
double lane_rate(LinkLayer link, unsigned speed) {
    const double coding = link == LinkLayer::Ethernet ? 1.0 : 0.8;
    switch (speed) {
        case 1: return 2.5 * coding;        // SDR
        case 2: return 5 * coding;          // DDR
        case 4: return 10 * coding;         // QDR
        case 8: return 10;                  // FDR10
        case 16: return 14.0625 * 64 / 66;  // FDR
        case 32: return 25;                 // EDR
        case 64: return 50;                 // HDR
        case 128: return 100;               // NDR
        case 256: return 200;               // XDR
        default: return 0;
    }
}

}  // namespace

double port_rate(LinkLayer link, unsigned width, unsigned speed) {
    return lanes(width) * lane_rate(link, speed) * 1e9 / 8;
}

}  // namespace weightlift::transport
