package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func message(topic string, from letter) *primitive.Message {
	made := primitive.NewMessage(topic, from.Body)
	made.WithProperties(map[string]string{})
	for name, value := range from.Properties {
		made.WithProperty(name, value)
	}
	if from.Tags != "" {
		made.WithTag(from.Tags)
	}
	if from.Keys != "" {
		made.WithKeys([]string{from.Keys})
	}
	if from.Level > 0 {
		made.WithDelayTimeLevel(from.Level)
	}
	return made
}

type queueOfMessage struct{ queues map[*primitive.Message]int }

// Select finds the queue that the letter names; any for less than 0.
func (chosen queueOfMessage) Select(message *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	for _, queue := range queues {
		if queue.QueueId == chosen.queues[message] {
			return queue
		}
	}
	return queues[0]
}

type receipt struct {
	Queue  int    `json:"queue"`
	Offset int64  `json:"offset"`
	ID     string `json:"id"`
	Unique string `json:"unique"`
}

func receiptOf(result *primitive.SendResult) receipt {
	return receipt{result.MessageQueue.QueueId, result.QueueOffset, result.OffsetMsgID, result.MsgID}
}

func send(told *order) (interface{}, error) {
	chosen := queueOfMessage{map[*primitive.Message]int{}}
	var messages []*primitive.Message
	for _, each := range told.Letters {
		made := message(told.Topic, each)
		chosen.queues[made] = each.Queue
		messages = append(messages, made)
	}
	made, err := rocketmq.NewProducer(producer.WithNsResolver(servers(told.Names)), producer.WithInstanceName(instance()),
		producer.WithGroupName("gopher"), producer.WithQueueSelector(chosen), producer.WithRetry(2))
	if err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	closers[told.Member] = made
	return sendBy(made, told.How, messages)
}

func sendBy(made rocketmq.Producer, how string, messages []*primitive.Message) (interface{}, error) {
	limit, end := context.WithTimeout(context.Background(), patienceSeconds*time.Second)
	defer end()
	receipts := make([]receipt, len(messages))
	switch how {
	case "batch":
		result, err := made.SendSync(limit, messages...)
		if err != nil {
			return nil, err
		}
		return []receipt{receiptOf(result)}, nil
	case "sync":
		for index, each := range messages {
			result, err := made.SendSync(limit, each)
			if err != nil {
				return nil, err
			}
			receipts[index] = receiptOf(result)
		}
		return receipts, nil
	case "one-way":
		for _, each := range messages {
			if err := made.SendOneWay(limit, each); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case "async":
		var all sync.WaitGroup
		failures := make([]error, len(messages))
		for index, each := range messages {
			all.Add(1)
			at := index
			err := made.SendAsync(limit, func(_ context.Context, result *primitive.SendResult, err error) {
				failures[at] = err
				if err == nil {
					receipts[at] = receiptOf(result)
				}
				all.Done()
			}, each)
			if err != nil {
				return nil, err
			}
		}
		all.Wait()
		for _, err := range failures {
			if err != nil {
				return nil, err
			}
		}
		return receipts, nil
	}
	return nil, fmt.Errorf("no such way to send: %q", how)
}

// Transactions that end as they are told at once, or when the broker asks: "commit", "rollback", "later commit", "later rollback".
type listener struct {
	ends  map[string]string
	asked chan string
}

func state(end string) primitive.LocalTransactionState {
	switch end {
	case "commit", "later commit":
		return primitive.CommitMessageState
	case "rollback", "later rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (heard *listener) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	end := heard.ends[string(message.Body)]
	if end == "commit" || end == "rollback" {
		return state(end)
	}
	return primitive.UnknowState
}

func (heard *listener) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	heard.asked <- string(message.Body)
	return state(heard.ends[string(message.Body)])
}

func transact(told *order) (interface{}, error) {
	heard := &listener{map[string]string{}, make(chan string, 100)}
	later := map[string]bool{}
	for index, each := range told.Letters {
		heard.ends[string(each.Body)] = told.Ends[index]
		if len(told.Ends[index]) > len("rollback") {
			later[string(each.Body)] = true
		}
	}
	made, err := rocketmq.NewTransactionProducer(heard, producer.WithNsResolver(servers(told.Names)), producer.WithInstanceName(instance()),
		producer.WithGroupName(told.Group))
	if err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	closers[told.Member] = made
	receipts := []receipt{}
	for _, each := range told.Letters {
		result, err := made.SendMessageInTransaction(context.Background(), message(told.Topic, each))
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, receiptOf(result.SendResult))
	}
	for late := time.After(patienceSeconds * time.Second); len(later) > 0; {
		select {
		case body := <-heard.asked:
			delete(later, body)
		case <-late:
			return nil, fmt.Errorf("nobody asked how %d transactions end", len(later))
		}
	}
	return receipts, nil
}

// Asks with a request and waits for the reply.
func ask(told *order) (interface{}, error) {
	made, err := rocketmq.NewProducer(producer.WithNsResolver(servers(told.Names)), producer.WithInstanceName(instance()),
		producer.WithGroupName("gopher"))
	if err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	defer made.Shutdown()
	reply, err := made.Request(context.Background(), patienceSeconds*time.Second, message(told.Topic, told.Letters[0]))
	if err != nil {
		return nil, err
	}
	return reply.Body, nil
}
