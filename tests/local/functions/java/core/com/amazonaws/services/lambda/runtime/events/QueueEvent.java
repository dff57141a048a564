package com.amazonaws.services.lambda.runtime.events;

import java.util.Date;
import java.util.List;

/** As AWS's events are: no plain constructor, no setters, and names that differ in case. */
public class QueueEvent {
    private final List<Message> records;

    public QueueEvent(List<Message> records, int size) {
        this.records = records;
    }

    public List<Message> getRecords() {
        return records;
    }

    public static class Message {
        private String eventSourceArn;
        private String detailType;
        private Date sent;

        @Override
        public String toString() {
            return eventSourceArn + " " + detailType + " " + sent.getTime();
        }
    }
}
