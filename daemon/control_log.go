package daemon

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

// levels are the log levels by what they are called on the wire.
var levels = map[rtdv1.LogLevel]hclog.Level{
	rtdv1.LogLevel_LOG_LEVEL_TRACE: hclog.Trace,
	rtdv1.LogLevel_LOG_LEVEL_DEBUG: hclog.Debug,
	rtdv1.LogLevel_LOG_LEVEL_INFO:  hclog.Info,
	rtdv1.LogLevel_LOG_LEVEL_WARN:  hclog.Warn,
	rtdv1.LogLevel_LOG_LEVEL_ERROR: hclog.Error,
	rtdv1.LogLevel_LOG_LEVEL_OFF:   hclog.Off,
}

// levelMessage is what a level is called on the wire.
func levelMessage(level hclog.Level) rtdv1.LogLevel {
	for name, l := range levels {
		if l == level {
			return name
		}
	}
	return rtdv1.LogLevel_LOG_LEVEL_UNSPECIFIED
}

func (d *Daemon) logLevel() rtdv1.LogLevel { return levelMessage(d.log.GetLevel()) }

func (s *daemonService) GetLogLevel(context.Context, *rtdv1.GetLogLevelRequest) (*rtdv1.GetLogLevelResponse, error) {
	return &rtdv1.GetLogLevelResponse{Level: s.d.logLevel(), Configured: levelMessage(s.d.current().cfg.LogLevel)}, nil
}

func (s *daemonService) SetLogLevel(_ context.Context, req *rtdv1.SetLogLevelRequest) (*rtdv1.SetLogLevelResponse, error) {
	s.levels.Lock()
	defer s.levels.Unlock()
	level, ok := levels[req.GetLevel()]
	switch {
	case req.GetUseConfigured() && req.GetLevel() != rtdv1.LogLevel_LOG_LEVEL_UNSPECIFIED:
		return nil, status.Error(codes.InvalidArgument, "log level: give a level or use_configured, not both")
	case req.GetUseConfigured():
		level = s.d.current().cfg.LogLevel
	case !ok:
		return nil, status.Errorf(codes.InvalidArgument, "log level %d: give trace, debug, info, warn, error or off", req.GetLevel())
	}
	before := s.d.logLevel()
	heard := s.d.log.IsInfo()
	if heard {
		s.d.log.Info("log level set", "level", level.String())
	}
	s.d.log.SetLevel(level)
	if !heard {
		s.d.log.Info("log level set", "level", level.String())
	}
	return &rtdv1.SetLogLevelResponse{Previous: before, Level: levelMessage(level)}, nil
}
