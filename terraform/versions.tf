terraform {
  required_version = ">= 1.9.0" # validations here look at more than their own variable

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.45.0, < 8.0.0"
    }
  }
}
