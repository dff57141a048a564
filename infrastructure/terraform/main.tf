# Publishes truemem's layer, or takes ARNs, and says what to write into a function.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "layer_arns" {
  description = "ARNs of the layer, by architecture: { x86_64 = \"arn:...\" }. Without them, layer_folder is published."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for architecture in keys(var.layer_arns) : contains(["x86_64", "arm64"], architecture)])
    error_message = "The keys of layer_arns are x86_64 and arm64."
  }
}

variable "layer_folder" {
  description = "Folder with truemem-layer-x86_64.zip and truemem-layer-arm64.zip, as `make layer` leaves them."
  type        = string
  default     = null
}

variable "skip_destroy" {
  description = "Keep published versions: after a change of the zip, and after destroy. Functions elsewhere, and a way back, need them."
  type        = bool
  default     = true
}

variable "exact" {
  description = "Exact mode. For managed runtimes: OS-only runtimes and container images ignore it."
  type        = bool
  default     = false
}

variable "exec_wrapper" {
  description = "With exact: another vendor's wrapper (the function's AWS_LAMBDA_EXEC_WRAPPER), to be started first."
  type        = string
  default     = null
}

variable "settings" {
  description = "Settings of the sidecar: { aggregate = 60 } is the variable TRUEMEM_AGGREGATE."
  type        = map(string)
  default     = {}
}

locals {
  published = toset(var.layer_folder == null ? [] : setsubtract(["x86_64", "arm64"], keys(var.layer_arns)))
  arns      = { for architecture, layer in aws_lambda_layer_version.truemem : architecture => layer.arn }
  settings  = { for name, value in var.settings : "TRUEMEM_${upper(name)}" => value }
  wrapper   = var.exact ? { AWS_LAMBDA_EXEC_WRAPPER = "/opt/truemem/exact" } : {}
  chained   = var.exact && var.exec_wrapper != null ? { TRUEMEM_EXEC_WRAPPER = var.exec_wrapper } : {}
}

resource "aws_lambda_layer_version" "truemem" {
  for_each = local.published

  layer_name               = "truemem-${each.key}"
  description              = "True memory telemetry"
  license_info             = "Apache-2.0"
  filename                 = "${var.layer_folder}/truemem-layer-${each.key}.zip"
  source_code_hash         = filebase64sha256("${var.layer_folder}/truemem-layer-${each.key}.zip")
  compatible_architectures = [each.key]
  skip_destroy             = var.skip_destroy
}

output "layer_arns" {
  description = "ARN of the layer version, by architecture."
  value       = merge(local.arns, var.layer_arns)

  precondition {
    condition     = var.layer_folder != null || length(var.layer_arns) > 0
    error_message = "There is no layer. Give layer_arns or layer_folder."
  }
}

output "environment" {
  description = "Environment variables to merge into the function's own."
  value       = merge(local.settings, local.chained, local.wrapper)
}
