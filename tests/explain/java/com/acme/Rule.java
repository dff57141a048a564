package com.acme;

/** Has no field: only its class keeps its loader. */
public class Rule {}
