// Animated pictures: APNG, a PNG file with further frames in chunks of its own.
//
// Every current browser plays it; a program that knows only PNG shows the first frame. The chunks
// are those of the PNG specification, third edition (W3C 2025), section 11.3.6.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "report/picture.h"

namespace slift {

// The bytes of an APNG file of `frames` >= 1 pictures draw(0), draw(1), ..., all of one size, that
// runs forever at `frames_per_second`. Pictures are drawn and compressed one by one: only one is
// alive at a time. What `draw` throws is passed on.
std::string encode_apng(std::int64_t frames, const std::function<Image(std::int64_t)>& draw,
                        int frames_per_second);

}  // namespace slift
