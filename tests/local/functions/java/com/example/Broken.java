package com.example;

public class Broken {
    public Broken() {
        throw new UnsupportedOperationException("no database");
    }

    public void handle(Object event) {
    }
}
