package command

import (
	"context"
	"testing"

	rtdv1 "github.com/rtd-project/rtd/proto/rtd/v1"
)

func (f *fake) GetLogLevel(context.Context, *rtdv1.GetLogLevelRequest) (*rtdv1.GetLogLevelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &rtdv1.GetLogLevelResponse{Level: f.info.GetLogLevel(), Configured: rtdv1.LogLevel_LOG_LEVEL_INFO}, nil
}

func (f *fake) SetLogLevel(_ context.Context, req *rtdv1.SetLogLevelRequest) (*rtdv1.SetLogLevelResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	res := &rtdv1.SetLogLevelResponse{Previous: f.info.GetLogLevel(), Level: req.GetLevel()}
	if req.GetUseConfigured() {
		res.Level = rtdv1.LogLevel_LOG_LEVEL_INFO
	}
	f.info.LogLevel = res.GetLevel()
	return res, nil
}

func TestLogLevelScreens(t *testing.T) {
	golden(t, "log-level.txt", serve(t, newFake(warmPool())))
}
