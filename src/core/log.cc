#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace slift {

void init_logging(bool quiet) {
  auto logger = std::make_shared<spdlog::logger>(
      "slift", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%^%L%$ %v");
  logger->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

}  // namespace slift
