package main

import (
	"context"
	"fmt"
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

// Joins a group as a push consumer. What arrives is kept for take. The first Fails messages are given back.
func join(told *order) (interface{}, error) {
	model := consumer.Clustering
	if told.Broadcast {
		model = consumer.BroadCasting
	}
	made, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(servers(told.Names)), consumer.WithInstance(instance()),
		consumer.WithGroupName(told.Group), consumer.WithConsumerModel(model), consumer.WithConsumerOrder(told.Orderly),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
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
	if err = made.Subscribe(told.Topic, selector(told), heard); err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	arrivals[told.Member] = queue
	closers[told.Member] = made
	return nil, nil
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
	made, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(servers(told.Names)), consumer.WithInstance(instance()),
		consumer.WithGroupName(told.Group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(told.Topic, selector(told)); err != nil {
		return nil, err
	}
	return made, made.Start()
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

// Messages of the group's queues, acknowledged; its offsets are committed.
func poll(told *order) (interface{}, error) {
	made, err := puller(told)
	if err != nil {
		return nil, err
	}
	defer made.Shutdown()
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
