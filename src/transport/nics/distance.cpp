#include "weightlift/transport/nics.hpp"
