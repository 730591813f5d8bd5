package config

// Delays of HotROD's Redis that an experiment sets. HotROD has flags only for the delays of its database.

import (
	"os"
	"strconv"
	"time"
)

// RedisFails is the number of calls after which the next one fails.
var RedisFails = 5

func init() {
	if fails, err := strconv.Atoi(os.Getenv("HOTROD_REDIS_FAILS")); err == nil {
		RedisFails = fails
	}
	if delay, err := time.ParseDuration(os.Getenv("HOTROD_REDIS_GET_DELAY")); err == nil {
		RedisGetDelay = delay
	}
	if deviation, err := time.ParseDuration(os.Getenv("HOTROD_REDIS_GET_STD_DEV")); err == nil {
		RedisGetDelayStdDev = deviation
	}
}
