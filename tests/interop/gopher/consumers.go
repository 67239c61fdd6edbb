package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var arrivals = map[string]chan shown{} // of members, by their names

func selector(told *order) consumer.MessageSelector {
	if told.SQL != "" {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: told.SQL}
	}
	if told.Tags != "" {
		return consumer.MessageSelector{Type: consumer.TAG, Expression: told.Tags}
	}
	return consumer.MessageSelector{}
}

// Starts a consumer. If the topic's route has not come within 6 s, the start fails, and its consumer is of no more use: then
// the next one is made.
func started(start func() error) error {
	var err error
	for left := 10; left > 0; left-- {
		if err = start(); err == nil || !strings.Contains(err.Error(), "route info not found") {
			break
		}
	}
	return err
}

// Joins a group as a push consumer. What arrives is kept for take. The first Fails messages are given back.
func join(told *order) (interface{}, error) {
	model := consumer.Clustering
	if told.Broadcast {
		model = consumer.BroadCasting
	}
	queue := make(chan shown, 100000)
	failures := make(chan bool, told.Fails)
	for i := 0; i < told.Fails; i++ {
		failures <- true
	}
	heard := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, each := range messages {
			queue <- show(each)
		}
		select {
		case <-failures:
			return consumer.ConsumeRetryLater, nil
		default:
			return consumer.ConsumeSuccess, nil
		}
	}
	arrivals[told.Member] = queue
	return nil, started(func() error {
		made, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(servers(told.Names)), consumer.WithInstance(instance()),
			consumer.WithGroupName(told.Group), consumer.WithConsumerModel(model), consumer.WithConsumerOrder(told.Orderly),
			consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
		if err != nil {
			return err
		}
		if err = made.Subscribe(told.Topic, selector(told), heard); err != nil {
			return err
		}
		closers[told.Member] = made
		return made.Start()
	})
}

// So many messages that have arrived, in their order.
func take(told *order) (interface{}, error) {
	found := []shown{}
	for late := time.After(patienceSeconds * time.Second); len(found) < told.Count; {
		select {
		case each := <-arrivals[told.Member]:
			found = append(found, each)
		case <-late:
			return nil, fmt.Errorf("only %d of %d messages came", len(found), told.Count)
		}
	}
	return found, nil
}

// What has arrived since the last look.
func came(told *order) (interface{}, error) {
	found := []shown{}
	for {
		select {
		case each := <-arrivals[told.Member]:
			found = append(found, each)
		default:
			return found, nil
		}
	}
}

func puller(told *order) (rocketmq.PullConsumer, error) {
	var made rocketmq.PullConsumer
	err := started(func() error {
		var err error
		made, err = rocketmq.NewPullConsumer(consumer.WithNsResolver(servers(told.Names)), consumer.WithInstance(instance()),
			consumer.WithGroupName(told.Group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
		if err != nil {
			return err
		}
		if err = made.Subscribe(told.Topic, selector(told)); err != nil {
			return err
		}
		return made.Start()
	})
	return made, err
}

// Messages of one queue, from an offset on, without the group's offsets.
func pull(told *order) (interface{}, error) {
	made, err := puller(told)
	if err != nil {
		return nil, err
	}
	defer made.Shutdown()
	queue := &primitive.MessageQueue{Topic: told.Topic, BrokerName: told.How, QueueId: told.Queue}
	found, offset := []shown{}, told.Offset
	for len(found) < told.Count {
		result, err := made.PullFrom(context.Background(), queue, offset, 32)
		if err != nil {
			return nil, err
		}
		if result.Status != primitive.PullFound && result.NextBeginOffset == offset {
			return nil, fmt.Errorf("only %d of %d messages at %d: status %d", len(found), told.Count, offset, result.Status)
		}
		for _, each := range result.GetMessageExts() {
			found = append(found, show(each))
		}
		offset = result.NextBeginOffset
	}
	return found, nil
}

// Messages of the group's queues, acknowledged; its offsets are committed, one-way. The consumer stays until it leaves.
func poll(told *order) (interface{}, error) {
	made, err := puller(told)
	if err != nil {
		return nil, err
	}
	closers[told.Member] = made
	found := []shown{}
	for late := time.Now().Add(patienceSeconds * time.Second); len(found) < told.Count; {
		request, err := made.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) && time.Now().Before(late) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%d of %d messages: %w", len(found), told.Count, err)
		}
		for _, each := range request.GetMsgList() {
			found = append(found, show(each))
		}
		made.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	return found, made.PersistOffset(context.Background(), told.Topic)
}
